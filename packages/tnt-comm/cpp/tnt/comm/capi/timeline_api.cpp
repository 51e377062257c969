#include "tnt/comm/communicator/runtime.hpp"
#include "tnt/comm/tnt_comm.h"

using namespace tnt::comm;  // NOLINT: a file of C functions

namespace {

// Calls `record(timeline, row, name)` if there is a timeline.
template <typename Record>
void on_this_thread(const char* name, Record&& record) noexcept {
  Timeline* timeline = process_timeline();
  if (timeline == nullptr) return;
  try {
    record(*timeline, timeline->row_of_this_thread(), timeline->name(name));
  } catch (...) {  // no memory for the name: a mark is not worth more than the program
    return;
  }
}

}  // namespace

extern "C" {

void tnt_timeline_begin(const char* name) {
  on_this_thread(name, [](Timeline& timeline, RowId row, NameId id) { timeline.begin(row, id); });
}

void tnt_timeline_end(const char* name) {
  on_this_thread(name, [](Timeline& timeline, RowId row, NameId id) { timeline.end(row, id); });
}

void tnt_timeline_instant(const char* name) {
  on_this_thread(name, [](Timeline& timeline, RowId row, NameId id) { timeline.instant(row, id); });
}

}  // extern "C"
