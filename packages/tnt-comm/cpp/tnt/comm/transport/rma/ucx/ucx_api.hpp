#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tnt/comm/transport/rma/network_library.hpp"

namespace tnt::comm::ucx {

// What is used of UCX' interface (ucp/api/ucp.h), in declarations of our own, so that nothing of
// UCX is needed to build this library. The structures only grow at their end from version to
// version, and say by masks which fields are set. A test compares all of this with UCX' headers.

using Status = std::int8_t;
inline constexpr Status kOk = 0;
inline constexpr Status kInProgress = 1;
inline constexpr Status kBusy = -15;
inline constexpr Status kLastError = -100;

using Context = struct ContextTag*;
using Worker = struct WorkerTag*;
using Endpoint = struct EndpointTag*;
using Memory = struct MemoryTag*;
using RemoteKey = struct RemoteKeyTag*;
using Address = struct AddressTag;
using Config = struct ConfigTag;

/// Whether what a non-blocking call returns is an error, and not a request or null.
inline bool is_error(const void* returned) {
  return reinterpret_cast<std::uintptr_t>(returned) >=
         static_cast<std::uintptr_t>(static_cast<std::intptr_t>(kLastError));
}

/// The error that a non-blocking call has returned.
inline Status error_of(const void* returned) {
  return static_cast<Status>(reinterpret_cast<std::intptr_t>(returned));
}

/// ucp_params_t
struct ContextParameters {
  static constexpr std::uint64_t kHasFeatures = 1U << 0;
  static constexpr std::uint64_t kHasNumEndpoints = 1U << 6;
  static constexpr std::uint64_t kRemoteMemory = 1U << 1;
  static constexpr std::uint64_t kWakeup = 1U << 4;
  static constexpr std::uint64_t kActiveMessages = 1U << 6;

  std::uint64_t mask;
  std::uint64_t features;
  std::size_t request_size;
  void (*request_init)(void*);
  void (*request_cleanup)(void*);
  std::uint64_t tag_sender_mask;
  int shares_workers;
  std::size_t num_endpoints;
  std::array<std::size_t, 16> later;
};

/// ucp_worker_params_t
struct WorkerParameters {
  static constexpr std::uint64_t kHasThreadMode = 1U << 0;
  static constexpr std::uint64_t kHasEvents = 1U << 2;
  static constexpr int kSerialized = 1;
  static constexpr unsigned kOnReceive = 1U << 2;
  static constexpr unsigned kOnSend = 1U << 3;

  std::uint64_t mask;
  int thread_mode;
  std::array<unsigned long, 16> cores;
  unsigned events;
  std::array<std::size_t, 16> later;
};

using ErrorHandler = void (*)(void* argument, Endpoint endpoint, Status status);

/// ucp_ep_params_t
struct EndpointParameters {
  static constexpr std::uint64_t kHasAddress = 1U << 0;
  static constexpr std::uint64_t kHasErrorMode = 1U << 1;
  static constexpr std::uint64_t kHasErrorHandler = 1U << 2;
  static constexpr int kErrorsOfPeer = 1;

  std::uint64_t mask;
  const Address* address;
  int error_mode;
  ErrorHandler on_error;
  void* on_error_argument;
  std::array<std::size_t, 16> later;
};

/// ucp_am_recv_param_t
struct ReceiveParameters {
  static constexpr std::uint64_t kIsRendezvous = 1U << 17;

  std::uint64_t attributes;
  Endpoint reply_endpoint;
};

using ReceiveHandler = Status (*)(void* argument, const void* header, std::size_t header_bytes,
                                  void* data, std::size_t num_bytes,
                                  const ReceiveParameters* parameters);

/// ucp_am_handler_param_t
struct HandlerParameters {
  static constexpr std::uint64_t kHasId = 1U << 0;
  static constexpr std::uint64_t kHasFlags = 1U << 1;
  static constexpr std::uint64_t kHasFunction = 1U << 2;
  static constexpr std::uint64_t kHasArgument = 1U << 3;
  static constexpr std::uint32_t kWholeMessages = 1U << 0;

  std::uint64_t mask;
  unsigned id;
  std::uint32_t flags;
  ReceiveHandler function;
  void* argument;
};

/// ucp_mem_map_params_t
struct MemoryParameters {
  static constexpr std::uint64_t kHasAddress = 1U << 0;
  static constexpr std::uint64_t kHasLength = 1U << 1;

  std::uint64_t mask;
  void* address;
  std::size_t length;
  std::array<std::size_t, 16> later;
};

using SentHandler = void (*)(void* request, Status status, void* user_data);

/// ucp_request_param_t
struct RequestParameters {
  static constexpr std::uint32_t kHasCallback = 1U << 1;
  static constexpr std::uint32_t kHasUserData = 1U << 2;
  static constexpr std::uint32_t kHasFlags = 1U << 4;
  static constexpr std::uint32_t kHasMemory = 1U << 8;
  static constexpr std::uint32_t kCompletesFast = 1U << 17;  ///< copies what is short
  static constexpr std::uint32_t kEager = 1U << 1;           ///< of an active message
  static constexpr std::uint32_t kForceClose = 1U << 0;      ///< of an endpoint

  std::uint32_t mask;
  std::uint32_t flags;
  void* request;
  SentHandler on_sent;
  std::uint64_t datatype;
  void* user_data;
  void* reply_buffer;
  int memory_type;
  void* receive_info;
  Memory memory;
  std::array<std::size_t, 12> later;
};

/// The functions, with UCX' names without `ucp_`.
struct Functions {
  SharedLibrary from = {};

  void (*get_version)(unsigned* major, unsigned* minor,
                      unsigned* release) = from["ucp_get_version"];
  Status (*config_read)(const char* prefix, const char* file,
                        Config** config) = from["ucp_config_read"];
  Status (*config_modify)(Config* config, const char* name,
                          const char* value) = from["ucp_config_modify"];
  void (*config_release)(Config* config) = from["ucp_config_release"];
  Status (*init_version)(unsigned major, unsigned minor, const ContextParameters* parameters,
                         const Config* config, Context* context) = from["ucp_init_version"];
  Status (*worker_create)(Context context, const WorkerParameters* parameters,
                          Worker* worker) = from["ucp_worker_create"];
  Status (*worker_get_address)(Worker worker, Address** address,
                               std::size_t* num_bytes) = from["ucp_worker_get_address"];
  void (*worker_release_address)(Worker worker,
                                 Address* address) = from["ucp_worker_release_address"];
  Status (*worker_get_efd)(Worker worker, int* descriptor) = from["ucp_worker_get_efd"];
  Status (*worker_arm)(Worker worker) = from["ucp_worker_arm"];
  unsigned (*worker_progress)(Worker worker) = from["ucp_worker_progress"];
  Status (*worker_set_am_recv_handler)(Worker worker, const HandlerParameters* parameters) =
      from["ucp_worker_set_am_recv_handler"];
  Status (*ep_create)(Worker worker, const EndpointParameters* parameters,
                      Endpoint* endpoint) = from["ucp_ep_create"];
  void (*worker_destroy)(Worker worker) = from["ucp_worker_destroy"];
  void (*cleanup)(Context context) = from["ucp_cleanup"];
  void* (*ep_close_nbx)(Endpoint endpoint,
                        const RequestParameters* parameters) = from["ucp_ep_close_nbx"];
  void* (*am_send_nbx)(Endpoint endpoint, unsigned id, const void* header, std::size_t header_bytes,
                       const void* data, std::size_t num_bytes,
                       const RequestParameters* parameters) = from["ucp_am_send_nbx"];
  Status (*mem_map)(Context context, const MemoryParameters* parameters,
                    Memory* memory) = from["ucp_mem_map"];
  Status (*mem_unmap)(Context context, Memory memory) = from["ucp_mem_unmap"];
  Status (*rkey_pack)(Context context, Memory memory, void** buffer,
                      std::size_t* num_bytes) = from["ucp_rkey_pack"];
  void (*rkey_buffer_release)(void* buffer) = from["ucp_rkey_buffer_release"];
  Status (*ep_rkey_unpack)(Endpoint endpoint, const void* buffer,
                           RemoteKey* key) = from["ucp_ep_rkey_unpack"];
  void (*rkey_destroy)(RemoteKey key) = from["ucp_rkey_destroy"];
  void* (*put_nbx)(Endpoint endpoint, const void* data, std::size_t num_bytes,
                   std::uint64_t remote_address, RemoteKey key,
                   const RequestParameters* parameters) = from["ucp_put_nbx"];
  void* (*ep_flush_nbx)(Endpoint endpoint,
                        const RequestParameters* parameters) = from["ucp_ep_flush_nbx"];
  void (*request_free)(void* request) = from["ucp_request_free"];
};

// Of UCX' lower layer (uct/api/uct.h): what kinds of networks a library was built for.

using Component = struct ComponentTag*;

/// uct_component_attr_t
struct ComponentAttributes {
  static constexpr std::uint64_t kHasName = 1U << 0;
  static constexpr std::uint64_t kHasNumResources = 1U << 1;

  std::uint64_t mask;
  std::array<char, 16> name;
  unsigned num_resources;
  std::array<std::size_t, 16> later;
};

/// The functions, with UCX' names without `uct_`.
struct ComponentFunctions {
  SharedLibrary from;

  Status (*query_components)(Component** components,
                             unsigned* num_components) = from["uct_query_components"];
  Status (*component_query)(Component component,
                            ComponentAttributes* attributes) = from["uct_component_query"];
  void (*release_component_list)(Component* components) = from["uct_release_component_list"];
};

}  // namespace tnt::comm::ucx
