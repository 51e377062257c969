#include "tnt/comm/base/error.hpp"

namespace tnt::comm {

Error Error::current() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return {ErrorKind::comm, error.what()};
  } catch (...) {
    return {ErrorKind::comm, "An unknown exception was thrown."};
  }
}

void Error::raise() const {
  if (kind_ == ErrorKind::usage) throw UsageError(*what_);
  throw Error(kind_, *what_);
}

}  // namespace tnt::comm
