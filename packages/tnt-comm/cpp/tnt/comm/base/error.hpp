#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Marks what `libtnt_comm.so` exports. Everything else is built with hidden visibility: only the C
/// interface and the facade the bindings use leave the library.
#define TNT_COMM_EXPORT __attribute__((visibility("default")))

namespace tnt::comm {

/// What went wrong, in the words of the C interface (same numbers).
enum class ErrorKind : std::int32_t {
  usage = 1,      ///< wrong argument or wrong order of calls; nothing was sent
  comm = 2,       ///< the operating system or the transport refused something
  timeout = 3,    ///< a deadline passed
  peer_lost = 4,  ///< a rank that is needed is dead, has finished or has failed
  mismatch = 5,   ///< ranks disagree about what they do together
};

/// Base of all errors of this library. Errors other than `usage` break the group they happen in.
///
/// An error that several threads are to see is copied for each, by raise(). The standard library
/// would let them share the object (std::exception_ptr) or its text (std::runtime_error), and count
/// its users where ThreadSanitizer does not see it.
class TNT_COMM_EXPORT Error : public std::exception {
 public:
  static constexpr int kNoRank = -1;

  Error(ErrorKind kind, std::string what, int cause_rank = kNoRank)
      : kind_(kind),
        cause_rank_(cause_rank),
        what_(std::make_shared<const std::string>(std::move(what))) {}

  /// The exception that is being handled, which becomes one of this library if
  /// it is none. In a catch block only.
  static Error current();

  ErrorKind kind() const noexcept { return kind_; }
  /// The world rank whose end, error or other call this is a consequence of, or kNoRank.
  int cause_rank() const noexcept { return cause_rank_; }
  const char* what() const noexcept override { return what_->c_str(); }

  /// Throws a copy, of the class for its kind.
  [[noreturn]] void raise() const;

 private:
  ErrorKind kind_;
  int cause_rank_;
  std::shared_ptr<const std::string> what_;
};

/// The caller broke a rule that can be checked locally.
class TNT_COMM_EXPORT UsageError : public Error {
 public:
  explicit UsageError(std::string what) : Error(ErrorKind::usage, std::move(what)) {}
};

/// Joins values into one string, as they would be streamed.
///
/// g++ 12 has no std::format; messages are built on error paths only, so the
/// cost of a stream does not matter.
template <typename... Values>
std::string text(const Values&... values) {
  std::ostringstream stream;
  (stream << ... << values);
  return stream.str();
}

/// The first bytes of a UTF-8 text, `count` at most, without half a character.
std::string_view first_bytes(std::string_view whole, std::size_t count);

/// Likewise the last bytes.
std::string_view last_bytes(std::string_view whole, std::size_t count);

/// For messages: what ends a sentence after this text, which may be one itself.
std::string_view full_stop_after(std::string_view text);

/// For messages: "a, b"; of many the first `most`, such as "a, b and 7 more".
std::string listed(std::size_t count, std::size_t most,
                   const std::function<std::string(std::size_t)>& name_at);

/// For messages: "rank 2", "ranks 1, 2"; of many the first ten. `name_of` says what
/// stands for a rank, its number if it is empty.
std::string names_of_ranks(const std::vector<int>& ranks,
                           const std::function<std::string(int)>& name_of = {});

enum class LogLevel : int { debug, info, warning, error };

/// The least level that is written; WARNING until it is set.
void set_log_level(LogLevel least);
bool is_logged(LogLevel level);

/// Writes one line to stderr if the level is logged, in one system call so that
/// the lines of several ranks do not mix.
void log(LogLevel level, int rank, const std::string& message);

inline void log_warning(int rank, const std::string& message) {
  log(LogLevel::warning, rank, message);
}

}  // namespace tnt::comm
