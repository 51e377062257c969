#include "tnt/keras/comm_library.hpp"

#include <dlfcn.h>

#include <string>

namespace tnt::keras {
namespace {

CommLibrary g_library;
std::string g_error;

template <typename Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (function == nullptr) g_error = std::string("the library has no function ") + name;
  return function != nullptr;
}

}  // namespace

const CommLibrary& comm_library() { return g_library; }

}  // namespace tnt::keras

/// Opens tnt-comm's library at `path` and finds the functions that the kernels need.
///
/// Returns null on success, else a sentence that says what is wrong; it is valid until the next
/// call. The library stays open for the life of the process, since kernels hold its functions.
extern "C" __attribute__((visibility("default"))) const char* tnt_keras_open_comm_library(
    const char* path) {
  using namespace tnt::keras;
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    g_error = dlerror();
    return g_error.c_str();
  }
  decltype(&tnt_comm_abi_version) abi_version = nullptr;
  if (!find(handle, "tnt_comm_abi_version", abi_version)) return g_error.c_str();
  if (abi_version() != TNT_KERAS_COMM_ABI_VERSION) {
    g_error = "its C interface has version " + std::to_string(abi_version()) + ", version " +
              std::to_string(TNT_KERAS_COMM_ABI_VERSION) +
              " is needed; install matching versions of tnt-comm and tnt-keras";
    return g_error.c_str();
  }
  CommLibrary library;
  if (!find(handle, "tnt_comm_last_error", library.last_error) ||
      !find(handle, "tnt_comm_rank", library.rank) ||
      !find(handle, "tnt_comm_set_label", library.set_label) ||
      !find(handle, "tnt_comm_combine", library.combine) ||
      !find(handle, "tnt_group_run", library.group_run) ||
      !find(handle, "tnt_reducer_start", library.reducer_start) ||
      !find(handle, "tnt_reducer_start_into", library.reducer_start_into) ||
      !find(handle, "tnt_reducer_is_in_place", library.reducer_is_in_place) ||
      !find(handle, "tnt_reducer_finish", library.reducer_finish) ||
      !find(handle, "tnt_reducer_lend", library.reducer_lend) ||
      !find(handle, "tnt_reducer_start_on_device", library.reducer_start_on_device) ||
      !find(handle, "tnt_reducer_finish_on_device", library.reducer_finish_on_device) ||
      !find(handle, "tnt_reducer_return", library.reducer_return) ||
      !find(handle, "tnt_gatherer_size", library.gatherer_size) ||
      !find(handle, "tnt_gatherer_start", library.gatherer_start) ||
      !find(handle, "tnt_gatherer_wait", library.gatherer_wait) ||
      !find(handle, "tnt_gatherer_finish", library.gatherer_finish) ||
      !find(handle, "tnt_timeline_begin", library.timeline_begin) ||
      !find(handle, "tnt_timeline_end", library.timeline_end)) {
    return g_error.c_str();
  }
  g_library = library;
  return nullptr;
}
