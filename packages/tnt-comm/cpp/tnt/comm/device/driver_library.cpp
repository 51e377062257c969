#include "tnt/comm/device/driver_library.hpp"

#include <memory>
#include <mutex>

#include "tnt/comm/base/environment.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/process.hpp"

namespace tnt::comm::cuda {
namespace {

constexpr LibraryNames kCuda = {"CUDA driver", "TNT_CUDA_LIBRARY", ""};
constexpr const char* kLibraryName = "libcuda.so.1";

std::mutex mutex;
std::unique_ptr<const Driver> opened;
Driver* substitute = nullptr;
bool is_substitute_initialized = false;

// Before any other function of the driver. Why it cannot be used; empty if it can.
std::string initialize(Driver& driver) {
  const Functions& functions = driver.functions;
  Result result = functions.init.call(0);
  if (result == kNoDevice) return "The CUDA driver finds no GPU.";
  if (result == kSuccess) result = functions.driver_get_version.call(&driver.version);
  if (result != kSuccess) {
    return text("The CUDA driver cannot be started: ", meaning_of(functions, result), ".");
  }
  // A child would have the driver's state without its threads and connections to the GPU.
  watch_forks();
  return {};
}

std::unique_ptr<const Driver> open_driver(const std::string& stated_path, std::string& reason) {
  try {
    const std::string path = stated_path.empty() ? kLibraryName : stated_path;
    const SharedLibrary library = open_library(kCuda, {path}, stated_path);
    auto driver = std::make_unique<Driver>(Driver{.functions = {.from = library}});
    reason = initialize(*driver);
    if (reason.empty()) return driver;
  } catch (const Error& error) {
    reason = error.what();
  }
  return nullptr;
}

}  // namespace

const Driver* find_driver(std::string& reason) {
  if (is_forked_child()) {
    reason =
        "CUDA does not work in a process that was forked from one that uses it. Start processes"
        " with subprocess or multiprocessing's 'spawn' method instead.";
    return nullptr;
  }
  const std::lock_guard lock(mutex);
  reason.clear();
  if (substitute != nullptr) {
    if (!is_substitute_initialized) reason = initialize(*substitute);
    is_substitute_initialized = reason.empty();
    return reason.empty() ? substitute : nullptr;
  }
  if (opened == nullptr) opened = open_driver(read_environment().cuda_library, reason);
  return opened.get();
}

void substitute_driver(Driver* driver) {
  const std::lock_guard lock(mutex);
  substitute = driver;
  is_substitute_initialized = false;
}

std::string meaning_of(const Functions& driver, Result result) {
  const char* name = nullptr;
  const char* words = nullptr;
  if (driver.get_error_name.call(result, &name) != kSuccess || name == nullptr) {
    return text("error ", result);
  }
  if (driver.get_error_string.call(result, &words) != kSuccess || words == nullptr) return name;
  return text(name, " (", words, ")");
}

}  // namespace tnt::comm::cuda
