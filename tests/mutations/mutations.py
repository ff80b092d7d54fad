"""One entry a mistake: what it is, the file, the right text, the wrong text, the test programs to ask."""

from async_update_mutations import ASYNC_UPDATES
from base_mutations import BASE
from fusion_mutations import FUSION
from lower_mutations import LOWER
from runtime_mutations import RUNTIME
from upper_mutations import UPPER

MUTATIONS = BASE + LOWER + RUNTIME + FUSION + ASYNC_UPDATES + UPPER
