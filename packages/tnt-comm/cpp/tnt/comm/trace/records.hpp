#pragma once

#include <cstdint>
#include <string>

#include "tnt/comm/trace/timeline.hpp"

namespace tnt::comm {

/// How two clocks differ: the other one shows `offset_ns` more than this one,
/// give or take `error_ns`.
struct ClockOffset {
  std::int64_t offset_ns = 0;
  std::int64_t error_ns = 0;
};

/// Of whom a timeline is.
struct RecordsOrigin {
  int rank = 0;
  int size = 1;       ///< of the job
  ClockOffset clock;  ///< rank 0's
};

/// All that a timeline holds, as bytes that `tnt_comm.timeline` makes a Chrome trace of
/// (see render.py there). May run while events are recorded.
std::string records_of(const Timeline& timeline, const RecordsOrigin& origin);

/// Where a rank leaves its records if no Python writes its part of the trace.
std::string records_path(const std::string& trace, int rank);

/// Writes a file, which must not be there yet. CommError if it cannot be written.
void write_new_file(const std::string& path, const std::string& content);

}  // namespace tnt::comm
