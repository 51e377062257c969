#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tnt/comm/trace/timeline.hpp"

namespace tnt::comm {

/// A text as JSON string, with its quotes. Bytes that are no UTF-8 become '?',
/// since names come from everywhere and the file must stay valid.
std::string quoted(std::string_view text);

/// How much of what a rank did its part of the trace holds.
enum class PartState {
  started,   ///< nothing: it was written at start-up
  partial,   ///< all until this rank saw that another one had ended
  complete,  ///< all until it ended
};

/// What a part says about its rank.
struct PartInfo {
  int rank = 0;
  int size = 1;  ///< of the job
  std::string host;
  std::int64_t clock_offset_ns = 0;  ///< to be added to this host's clock to get rank 0's
  std::int64_t clock_error_ns = 0;   ///< at most
  PartState state = PartState::started;
};

// A trace file (Chrome trace event format, JSON) is: head, events, info head,
// info, tail. Every event is a line, so that files can be joined without
// understanding JSON.
inline constexpr std::string_view kTraceHead = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
inline constexpr std::string_view kEventsSeparator = ",\n";
inline constexpr std::string_view kInfoHead = "\n],\"otherData\":";
inline constexpr std::string_view kTraceTail = "}\n";

/// The part of one rank: a whole trace of its own. May run while events are
/// recorded.
std::string render_part(const Timeline& timeline, const PartInfo& info);

/// Lines that name the process of a rank in the viewer, in order.
std::string process_name_event(int rank, std::string_view name);

/// A mark that the viewer shows for a whole process.
std::string process_mark_event(int rank, std::int64_t time_ns, std::string_view name);

}  // namespace tnt::comm
