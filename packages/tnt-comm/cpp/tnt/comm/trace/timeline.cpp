#include "tnt/comm/trace/timeline.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "tnt/comm/base/process.hpp"

namespace tnt::comm {

namespace {

constexpr std::string_view kHead = "tnt-comm records 1\n";

static_assert(sizeof(Event) == 32 && std::is_trivially_copyable_v<Event>);

template <typename Number>
void put(std::string& out, Number number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void put_text(std::string& out, std::string_view text) {
  put(out, static_cast<std::uint32_t>(text.size()));
  out += text;
}

}  // namespace

std::string records_of(const Timeline& timeline, const RecordsOrigin& origin) {
  std::string out(kHead);
  put(out, std::int32_t{origin.rank});
  put(out, std::int32_t{origin.size});
  put(out, origin.clock.offset_ns);
  put(out, origin.clock.error_ns);
  put(out, now_ns());
  put(out, timeline.events().num_dropped());
  put_text(out, host_name());
  const std::vector<RowSpec> rows = timeline.rows();
  put(out, static_cast<std::uint32_t>(rows.size()));
  for (const RowSpec& row : rows) {
    put(out, row.thread);
    put(out, row.num_bytes);
    for (const std::string* text : {&row.title, &row.category, &row.value_name, &row.bucket}) {
      put_text(out, *text);
    }
  }
  const std::vector<std::string> names = timeline.names();
  put(out, static_cast<std::uint32_t>(names.size()));
  for (const std::string& name : names) put_text(out, name);
  // Events of rows and names that are younger than this look at them come next time.
  timeline.events().for_each([&](const Event& event) {
    if (event.row < rows.size() && event.name < names.size()) put(out, event);
  });
  return out;
}

std::string records_path(const std::string& trace, int rank) {
  return text(trace, ".rank", rank);
}

void write_new_file(const std::string& path, const std::string& content) {
  const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0666);
  std::size_t num_written = 0;
  ssize_t added = 0;
  while (file >= 0 && num_written < content.size() && (added >= 0 || errno == EINTR)) {
    added = ::write(file, content.data() + num_written, content.size() - num_written);
    if (added > 0) num_written += static_cast<std::size_t>(added);
  }
  const bool is_complete = file >= 0 && num_written == content.size();
  if (file >= 0 && ::close(file) == 0 && is_complete) return;
  throw Error(ErrorKind::comm, "the file '", path, "' cannot be written: ", std::strerror(errno),
              ".");
}

}  // namespace tnt::comm
