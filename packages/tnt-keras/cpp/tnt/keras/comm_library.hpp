// The functions of tnt-comm's shared library, found at run time.
#pragma once

#include "tnt/keras/comm_c_api.h"

namespace tnt::keras {

/// Table of the functions that the kernels call. All pointers are null until `open` succeeded.
struct CommLibrary {
  decltype(&tnt_comm_last_error) last_error = nullptr;
  decltype(&tnt_comm_rank) rank = nullptr;
  decltype(&tnt_comm_set_label) set_label = nullptr;
  decltype(&tnt_comm_combine) combine = nullptr;
  decltype(&tnt_group_run) group_run = nullptr;
  decltype(&tnt_reducer_start) reducer_start = nullptr;
  decltype(&tnt_reducer_start_into) reducer_start_into = nullptr;
  decltype(&tnt_reducer_is_in_place) reducer_is_in_place = nullptr;
  decltype(&tnt_reducer_finish) reducer_finish = nullptr;
  decltype(&tnt_reducer_lend) reducer_lend = nullptr;
  decltype(&tnt_reducer_start_on_device) reducer_start_on_device = nullptr;
  decltype(&tnt_reducer_finish_on_device) reducer_finish_on_device = nullptr;
  decltype(&tnt_reducer_return) reducer_return = nullptr;
  decltype(&tnt_gatherer_size) gatherer_size = nullptr;
  decltype(&tnt_gatherer_start) gatherer_start = nullptr;
  decltype(&tnt_gatherer_wait) gatherer_wait = nullptr;
  decltype(&tnt_gatherer_finish) gatherer_finish = nullptr;
  decltype(&tnt_timeline_begin) timeline_begin = nullptr;
  decltype(&tnt_timeline_end) timeline_end = nullptr;
};

/// The table of this process. Filled once, before the first kernel runs, by
/// `tnt_keras_open_comm_library`; only read afterwards, so that no lock is needed.
const CommLibrary& comm_library();

}  // namespace tnt::keras
