#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "tnt/comm/base/deadline.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/trace/trace_files.hpp"

namespace tnt::comm {
namespace {

// Length of the well-formed UTF-8 sequence at the begin of `text`, else 0.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto length = static_cast<std::size_t>(std::countl_one(byte(0)));
  if (length == 0) return 1;
  if (length == 1 || length > 4 || length > text.size()) return 0;
  std::uint32_t code = byte(0) & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
    code = code << 6 | (byte(i) & 0x3FU);
  }
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code < 0xE000;
  return code < kLeast[length] || is_surrogate || code > 0x10FFFF ? 0 : length;
}

// Rows that are no threads get numbers that no thread can have.
constexpr std::int64_t kFirstOtherRow = 10'000'000;

// The format counts in microseconds.
std::string microseconds(std::int64_t time_ns) {
  const std::int64_t size = time_ns < 0 ? -time_ns : time_ns;
  const std::string sign = time_ns < 0 ? "-" : "";
  return sign + std::to_string(size / 1000) + '.' + std::to_string(1000 + size % 1000).substr(1);
}

// Lines that name a process, or a thread of one, and tell its place in the order.
std::string naming(std::string_view what, const std::string& pid, std::string_view name,
                   std::size_t sort_index) {
  return text(R"({"ph":"M","name":")", what, R"(_name","pid":)", pid, R"(,"args":{"name":)",
              quoted(name), "}}", kEventsSeparator, R"({"ph":"M","name":")", what,
              R"(_sort_index","pid":)", pid, R"(,"args":{"sort_index":)", sort_index, "}}");
}

constexpr std::array<std::string_view, 3> kStateNames = {"started", "partial", "complete"};

/// Turns the events of a rank into lines: pairs of begin and end into slices
/// that know their length, as do states.
class Renderer {
 public:
  Renderer(const Timeline& timeline, const PartInfo& info)
      : timeline_(timeline), info_(info), rows_(timeline.rows()), states_(rows_.size()) {
    for (const std::string& name : timeline.names()) names_.push_back(quoted(name));
    for (const RowSpec& row : rows_) categories_.push_back(quoted(row.category));
  }

  std::string lines() {
    out_ = process_name_event(info_.rank, text("rank ", info_.rank, " (", info_.host, ")"));
    for (std::size_t row = 0; row < rows_.size(); ++row) name_row(row);
    timeline_.events().for_each([this](const Event& event) { take(event); });
    close_all();
    return std::move(out_);
  }

 private:
  struct Open {
    std::int64_t begin_ns;
    std::uint64_t value;
    NameId name;
  };
  struct RowState {
    std::vector<Open> slices;  // nested: the last one is the innermost
    std::optional<Open> state;
  };

  std::int64_t number_of(std::size_t row) const {
    return rows_[row].thread != 0 ? rows_[row].thread
                                  : kFirstOtherRow + static_cast<std::int64_t>(row);
  }

  void name_row(std::size_t row) {
    const std::string who = text(info_.rank, ",\"tid\":", number_of(row));
    add(kEventsSeparator, naming("thread", who, rows_[row].title, row));
  }

  void take(const Event& event) {
    // Rows and names that are younger than this look at them come next time.
    if (event.row >= rows_.size() || event.name >= names_.size()) return;
    last_ns_ = std::max(last_ns_, event.time_ns);
    RowState& row = states_[event.row];
    const Open begun{event.time_ns, event.value, event.name};
    switch (event.kind) {
      case EventKind::begin:
        row.slices.push_back(begun);
        break;
      case EventKind::end:
        end_slice(event);
        break;
      case EventKind::state:
        if (row.state) write_slice(event.row, *row.state, event.time_ns, false);
        row.state = begun;
        break;
      case EventKind::instant:
        if (row.state) write_slice(event.row, *row.state, event.time_ns, false);
        row.state.reset();
        add(kEventsSeparator, R"({"ph":"i","s":"t")");
        write_rest(event.row, begun, false);
        break;
    }
  }

  void end_slice(const Event& event) {
    std::vector<Open>& slices = states_[event.row].slices;
    const auto found = std::find_if(slices.rbegin(), slices.rend(),
                                    [&](const Open& open) { return open.name == event.name; });
    if (found == slices.rend()) return;  // its begin was dropped or never was
    const auto depth = static_cast<std::size_t>(slices.rend() - found) - 1;
    while (slices.size() > depth) {
      write_slice(event.row, slices.back(), event.time_ns, slices.size() > depth + 1);
      slices.pop_back();
    }
  }

  // What is still open when the trace ends is shown until then.
  void close_all() {
    for (std::size_t row = 0; row < states_.size(); ++row) {
      for (; !states_[row].slices.empty(); states_[row].slices.pop_back()) {
        write_slice(row, states_[row].slices.back(), last_ns_, true);
      }
      if (states_[row].state) write_slice(row, *states_[row].state, last_ns_, true);
    }
  }

  void write_slice(std::size_t row, const Open& open, std::int64_t end_ns, bool is_unfinished) {
    add(kEventsSeparator, R"({"ph":"X","dur":)",
        microseconds(std::max<std::int64_t>(0, end_ns - open.begin_ns)));
    write_rest(row, open, is_unfinished);
  }

  void write_rest(std::size_t row, const Open& open, bool is_unfinished) {
    add(R"(,"ts":)", microseconds(open.begin_ns + info_.clock_offset_ns), R"(,"pid":)",
        std::to_string(info_.rank), R"(,"tid":)", std::to_string(number_of(row)), R"(,"name":)",
        names_[open.name], R"(,"cat":)", categories_[row], R"(,"args":{)");
    const RowSpec& spec = rows_[row];
    const std::size_t empty = out_.size();
    const auto separator = [&] { return out_.size() > empty ? "," : ""; };
    if (!spec.value_name.empty()) {
      add('"', spec.value_name, "\":", std::to_string(static_cast<std::int64_t>(open.value)));
    }
    if (!spec.arguments.empty()) add(separator(), spec.arguments);
    if (is_unfinished) add(separator(), R"("unfinished":true)");
    out_ += "}}";
  }

  template <typename... Texts>
  void add(const Texts&... texts) {
    ((out_ += texts), ...);
  }

  const Timeline& timeline_;
  const PartInfo& info_;
  std::vector<RowSpec> rows_;
  std::vector<std::string> names_;  // as JSON strings
  std::vector<std::string> categories_;
  std::vector<RowState> states_;
  std::int64_t last_ns_ = 0;
  std::string out_;
};

}  // namespace

std::string quoted(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = sequence_length(text);
    if (length == 0) {
      result += '?';
    } else if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (static_cast<std::uint8_t>(c) < 0x20) {
      const auto value = static_cast<std::size_t>(c);
      result += "\\u00";
      result += {kDigits[value / 16], kDigits[value % 16]};
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result + '"';
}

std::string render_part(const Timeline& timeline, const PartInfo& info) {
  const std::uint64_t num_dropped = timeline.events().num_dropped();
  std::string lines = Renderer(timeline, info).lines();
  if (num_dropped > 0) {
    lines += text(kEventsSeparator,
                  process_mark_event(info.rank, now_ns() + info.clock_offset_ns,
                                     text("the last ", num_dropped, " events of rank ", info.rank,
                                          " are missing: the timeline was full")));
  }
  return text(kTraceHead, lines, kInfoHead, R"({"rank":)", info.rank, R"(,"size":)", info.size,
              R"(,"host":)", quoted(info.host), R"(,"state":")",
              kStateNames[static_cast<std::size_t>(info.state)], R"(","dropped_events":)",
              num_dropped, R"(,"clock_error_us":)",
              static_cast<double>(info.clock_error_ns) / 1000.0, "}", kTraceTail);
}

std::string process_name_event(int rank, std::string_view name) {
  return naming("process", std::to_string(rank), name, static_cast<std::size_t>(rank));
}

std::string process_mark_event(int rank, std::int64_t time_ns, std::string_view name) {
  return text(R"({"ph":"i","s":"p","cat":"trace","pid":)", rank, R"(,"tid":0,"ts":)",
              microseconds(time_ns), R"(,"name":)", quoted(name), R"(,"args":{}})");
}

}  // namespace tnt::comm
