"""One entry a mistake: what it is, the file, the right text, the wrong text, the test programs to ask."""

from base_mutations import BASE
from lower_mutations import LOWER
from runtime_mutations import RUNTIME
from upper_mutations import UPPER

MUTATIONS = BASE + LOWER + RUNTIME + UPPER
