// Includes every public header of parallel: training and serving on several devices. For programs;
// the library's own sources include the single headers.
#pragma once

#include <hearth/parallel/batch_rows.hpp>
#include <hearth/parallel/batch_runner.hpp>
#include <hearth/parallel/batcher.hpp>
#include <hearth/parallel/bucket_plan.hpp>
#include <hearth/parallel/collective.hpp>
#include <hearth/parallel/coordinator.hpp>
#include <hearth/parallel/data_parallel.hpp>
#include <hearth/parallel/data_parallel_options.hpp>
#include <hearth/parallel/data_parallel_report.hpp>
#include <hearth/parallel/frozen.hpp>
#include <hearth/parallel/gathered_figures.hpp>
#include <hearth/parallel/gradient_exchange.hpp>
#include <hearth/parallel/hand_over.hpp>
#include <hearth/parallel/inproc_collective.hpp>
#include <hearth/parallel/model_server.hpp>
#include <hearth/parallel/process_collective.hpp>
#include <hearth/parallel/process_group.hpp>
#include <hearth/parallel/process_ranks.hpp>
#include <hearth/parallel/process_transport.hpp>
#include <hearth/parallel/rank_model.hpp>
#include <hearth/parallel/replica.hpp>
#include <hearth/parallel/replica_trainer.hpp>
#include <hearth/parallel/request_input.hpp>
#include <hearth/parallel/served_model.hpp>
#include <hearth/parallel/server_desk.hpp>
#include <hearth/parallel/server_options.hpp>
#include <hearth/parallel/trainer.hpp>
#include <hearth/parallel/trainer_loss.hpp>
#include <hearth/parallel/trainer_losses.hpp>
#include <hearth/parallel/trainer_options.hpp>
#include <hearth/parallel/training_run.hpp>
#include <hearth/parallel/worker.hpp>
