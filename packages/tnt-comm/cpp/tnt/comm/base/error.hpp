#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
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

/// Joins values into one string, as they would be streamed.
///
/// g++ 12 has no std::format; messages are for error paths, so a stream's cost does not matter.
template <typename... Values>
std::string text(const Values&... values) {
  std::ostringstream stream;
  (stream << ... << values);
  return stream.str();
}

/// Base of all errors of this library. Errors other than `usage` break the group they happen in.
///
/// An error that several threads are to see is copied for each, by raise(). The standard library
/// would let them share the object (std::exception_ptr) or its text (std::runtime_error), and count
/// its users where ThreadSanitizer does not see it.
///
/// This class and those derived from it have a virtual function that is not inline, so that they
/// exist once in the process, here: another shared object then catches them by their class.
class TNT_COMM_EXPORT Error : public std::exception {
 public:
  static constexpr int kNoRank = -1;

  /// Its text is that of the values.
  template <typename... Values>
  Error(ErrorKind kind, const Values&... values)
      : kind_(kind), what_(std::make_shared<const std::string>(text(values...))) {}

  /// The same, as a consequence of what a world rank did; kNoRank for none.
  Error caused_by(int rank) const {
    Error result = *this;
    result.cause_rank_ = rank;
    return result;
  }

  /// The exception that is being handled, made one of this library. In a catch block only.
  static Error current();
  ErrorKind kind() const noexcept { return kind_; }
  /// The world rank whose end, error or other call this is a consequence of, or kNoRank.
  int cause_rank() const noexcept { return cause_rank_; }
  const char* what() const noexcept override;

  /// Throws a copy, of the class for its kind.
  [[noreturn]] void raise() const;

 private:
  ErrorKind kind_;
  int cause_rank_ = kNoRank;
  std::shared_ptr<const std::string> what_;
};

/// The caller broke a rule that can be checked locally.
class TNT_COMM_EXPORT UsageError : public Error {
 public:
  template <typename... Values>
  explicit UsageError(const Values&... values) : Error(ErrorKind::usage, values...) {}
  ~UsageError() override;
};

/// An exception of the standard library, as a value.
struct StandardError {
  bool is_bad_alloc;
  std::string what;
};

/// Describes an exception for a shared object that may have a standard library of its own, as one
/// that clang links with libc++ has: this library's `std::bad_alloc` is no class that it can catch.
TNT_COMM_EXPORT StandardError standard_error_of(const std::exception_ptr& exception);

/// The first bytes of a UTF-8 text, `count` at most, without half a character.
std::string_view first_bytes(std::string_view whole, std::size_t count);

/// Likewise the last bytes.
std::string_view last_bytes(std::string_view whole, std::size_t count);

/// A text in memory that others read, who may have written it: as much of it as there is room for.
template <std::size_t kBytes>
struct FixedText {
  std::array<char, kBytes> bytes;

  void set(std::string_view whole) {
    bytes[first_bytes(whole, kBytes - 1).copy(bytes.data(), kBytes - 1)] = '\0';
  }
  std::string get() const { return {bytes.data(), ::strnlen(bytes.data(), kBytes)}; }
};

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

template <typename... Values>
void log_warning(int rank, const Values&... values) {
  if (is_logged(LogLevel::warning)) log(LogLevel::warning, rank, text(values...));
}

}  // namespace tnt::comm
