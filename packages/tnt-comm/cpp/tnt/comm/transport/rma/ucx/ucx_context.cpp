#include "tnt/comm/transport/rma/ucx/ucx_context.hpp"

#include <memory>

namespace tnt::comm {
namespace {

// The interface of UCX that is asked for: that of the oldest version.
constexpr unsigned kApiMajor = 1;
constexpr unsigned kApiMinor = 13;

}  // namespace

UcxContext::UcxContext(const UcxLibrary& library, const UcxNetwork& network, int rank, int size)
    : functions_(library.functions) {
  ucx::Config* read = nullptr;
  require_ok(library, rank, functions_.config_read(nullptr, nullptr, &read), "ucp_config_read");
  const std::unique_ptr<ucx::Config, void (*)(ucx::Config*)> config(read,
                                                                    functions_.config_release);
  apply_settings(library, network, read);
  ucx::ContextParameters parameters{};
  parameters.mask = ucx::ContextParameters::kHasFeatures | ucx::ContextParameters::kHasNumEndpoints;
  parameters.features = ucx::ContextParameters::kActiveMessages | ucx::ContextParameters::kWakeup;
  if (network.has_rdma) parameters.features |= ucx::ContextParameters::kRemoteMemory;
  parameters.num_endpoints = static_cast<std::size_t>(size);
  require_ok(library, rank,
             functions_.init_version(kApiMajor, kApiMinor, &parameters, read, &handle_),
             "ucp_init");
}

UcxContext::~UcxContext() {
  for (const ucx::Memory memory : registered_) functions_.mem_unmap(handle_, memory);
  functions_.cleanup(handle_);
}

std::optional<RegisteredMemory> UcxContext::register_memory(void* address, std::size_t num_bytes) {
  ucx::MemoryParameters parameters{};
  parameters.mask = ucx::MemoryParameters::kHasAddress | ucx::MemoryParameters::kHasLength;
  parameters.address = address;
  parameters.length = num_bytes;
  RegisteredMemory memory;
  if (functions_.mem_map(handle_, &parameters, &memory.handle) != ucx::kOk) return std::nullopt;
  registered_.insert(memory.handle);
  void* packed = nullptr;
  std::size_t packed_bytes = 0;
  if (functions_.rkey_pack(handle_, memory.handle, &packed, &packed_bytes) != ucx::kOk) {
    deregister(memory);
    return std::nullopt;
  }
  memory.remote_key.assign(static_cast<const char*>(packed), packed_bytes);
  functions_.rkey_buffer_release(packed);
  return memory;
}

void UcxContext::deregister(const RegisteredMemory& memory) {
  if (registered_.erase(memory.handle) != 0) functions_.mem_unmap(handle_, memory.handle);
}

}  // namespace tnt::comm
