#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tnt/comm/base/error.hpp"
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

/// Where a trace is written, and where the parts of ranks lie until they are joined.
struct TracePaths {
  std::string path;   ///< absolute; a link to a regular file has been followed
  std::string parts;  ///< begin of the parts' names
  /// A regular file, or none yet, which the whole trace replaces. Otherwise a
  /// device or a pipe, which is written to and stays what it is.
  bool is_replaced = true;
};

/// The paths that a path names. Parts are beside a regular file, and in the
/// folder for temporary files for anything else; `job` then tells those of
/// different jobs apart. UsageError if the path is a folder, a link to itself or a link of another
/// user, root aside.
TracePaths trace_paths(const std::string& path, const std::string& job);

/// Where a rank writes its part of the trace, of which `parts` is the paths's.
std::string part_path(const std::string& parts, int rank);

/// UsageError if something that is no part lies where a rank writes its own.
void require_place_for_part(const std::string& parts, int rank);

/// Writes a file as a whole or not at all: what was there before stays until
/// the new one is complete, which has its mode. CommError if it cannot be written.
void write_atomically(const std::string& path, std::string_view text);

/// Joins the parts of all ranks into the trace, atomically; a device or a pipe is
/// written to once, when all ranks have ended. Ranks whose
/// part is missing or empty are named in it, with a mark at `now_ns` (of rank
/// 0's clock). Never waits for a rank; if another process is merging, it waits
/// some seconds for that.
///
/// `has_ended`: no rank will write its part any more, so that the parts are
/// removed. CommError if a file cannot be read or written.
void merge_parts(const TracePaths& paths, int num_ranks, std::int64_t now_ns, bool has_ended);

/// merge_parts() for the parts that a job has left, which is over. UsageError
/// if there are none.
TNT_COMM_EXPORT void merge_left_parts(const std::string& path);

}  // namespace tnt::comm
