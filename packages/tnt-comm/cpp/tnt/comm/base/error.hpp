#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

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
class TNT_COMM_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& what) : std::runtime_error(what), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

/// The caller broke a rule that can be checked locally.
class TNT_COMM_EXPORT UsageError : public Error {
 public:
  explicit UsageError(const std::string& what) : Error(ErrorKind::usage, what) {}
};

}  // namespace tnt::comm
