#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "tnt/comm/base/export.hpp"

namespace tnt::comm {

/// What went wrong, in the words of the C interface (same numbers).
enum class ErrorKind : std::int32_t {
  usage = 1,      ///< wrong argument or wrong order of calls; nothing was sent
  comm = 2,       ///< the operating system or the transport refused something
  timeout = 3,    ///< a deadline passed
  peer_lost = 4,  ///< a rank that is needed is dead, has finished or has failed
  mismatch = 5,   ///< ranks disagree about what they do together
};

/// Base of all errors of this library. Errors other than `usage` break the
/// group they happen in.
///
/// An error that several threads are to see is copied for each, by raise(). The
/// standard library would let them share the object (std::exception_ptr) or its
/// text (std::runtime_error), and count its users where ThreadSanitizer does not
/// see it.
class TNT_COMM_EXPORT Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string what)
      : kind_(kind), what_(std::make_shared<const std::string>(std::move(what))) {}

  /// The exception that is being handled, which becomes one of this library if
  /// it is none. In a catch block only.
  static Error current();

  ErrorKind kind() const noexcept { return kind_; }
  const char* what() const noexcept override { return what_->c_str(); }

  /// Throws a copy, of the class for its kind.
  [[noreturn]] void raise() const;

 private:
  ErrorKind kind_;
  std::shared_ptr<const std::string> what_;
};

/// The caller broke a rule that can be checked locally.
class TNT_COMM_EXPORT UsageError : public Error {
 public:
  explicit UsageError(std::string what) : Error(ErrorKind::usage, std::move(what)) {}
};

}  // namespace tnt::comm
