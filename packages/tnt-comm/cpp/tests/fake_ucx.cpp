#include "fake_ucx.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace tnt::comm::tests {
namespace {

constexpr ucx::Status kNoMemory = -4;
constexpr ucx::Status kCanceled = -16;
constexpr ucx::Status kReset = -25;

struct Message {
  std::string header;
  std::string data;
};

struct FakeEndpoint;

/// A put, or a flush if there is no data; `endpoint` completes them in order.
struct Operation {
  FakeEndpoint* endpoint;
  const void* data;
  std::size_t num_bytes;
  std::uint64_t to;
  std::uint64_t key;
  ucx::SentHandler on_done;
  void* user_data;
};

struct FakeWorker {
  int number = 0;
  int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  ucx::HandlerParameters handler{};
  std::vector<Message> come;
  std::vector<Operation> operations;
  std::vector<FakeEndpoint*> endpoints;
  ~FakeWorker() { ::close(event); }
};

struct FakeEndpoint {
  FakeWorker* owner = nullptr;
  int to_worker = 0;
  ucx::ErrorHandler on_error = nullptr;
  void* on_error_argument = nullptr;
  bool has_failed = false;
};

struct Registered {
  std::byte* begin;
  std::byte* end;
};

FakeUcx* current = nullptr;
std::mutex mutex;
std::map<int, std::unique_ptr<FakeWorker>> workers;
std::vector<std::unique_ptr<FakeEndpoint>> endpoints;
std::map<void*, std::unique_ptr<std::string>> packed_keys;
std::map<std::uint64_t, Registered> registered;  // by key
std::uint64_t num_keys_made = 0;
int num_workers = 0;

bool is_held(const FakeWorker& worker) {
  return current->is_held || current->held_worker == worker.number;
}

FakeWorker& worker_of(ucx::Worker worker) {
  return *reinterpret_cast<FakeWorker*>(worker);
}

ucx::Status create_worker(ucx::Context, const ucx::WorkerParameters*, ucx::Worker* worker) {
  const std::lock_guard lock(mutex);
  auto made = std::make_unique<FakeWorker>();
  made->number = ++num_workers;
  *worker = reinterpret_cast<ucx::Worker>(made.get());
  workers[made->number] = std::move(made);
  return ucx::kOk;
}

void destroy_worker(ucx::Worker worker) {
  const std::lock_guard lock(mutex);
  workers.erase(worker_of(worker).number);
}

FakeEndpoint& endpoint_of(ucx::Endpoint endpoint) {
  return *reinterpret_cast<FakeEndpoint*>(endpoint);
}

// An address is a worker's number.
ucx::Status address_of(ucx::Worker worker, ucx::Address** address, std::size_t* num_bytes) {
  *num_bytes = sizeof(int);
  *address = reinterpret_cast<ucx::Address*>(&worker_of(worker).number);
  return ucx::kOk;
}

ucx::Status create_endpoint(ucx::Worker worker, const ucx::EndpointParameters* parameters,
                            ucx::Endpoint* endpoint) {
  const std::lock_guard lock(mutex);
  auto made = std::make_unique<FakeEndpoint>();
  made->owner = worker == nullptr ? nullptr : &worker_of(worker);
  std::memcpy(&made->to_worker, parameters->address, sizeof made->to_worker);
  made->on_error = parameters->on_error;
  made->on_error_argument = parameters->on_error_argument;
  if (made->owner != nullptr) made->owner->endpoints.push_back(made.get());
  *endpoint = reinterpret_cast<ucx::Endpoint>(made.get());
  endpoints.push_back(std::move(made));
  return ucx::kOk;
}

// A memory handle and a remote key are the number of a registration, a packed key its digits.

ucx::Status register_memory(ucx::Context, const ucx::MemoryParameters* parameters,
                            ucx::Memory* memory) {
  if (current->refuses_registration) return kNoMemory;
  const std::lock_guard lock(mutex);
  auto* begin = static_cast<std::byte*>(parameters->address);
  registered[++num_keys_made] = {begin, begin + parameters->length};
  ++current->num_registered;
  *memory = reinterpret_cast<ucx::Memory>(num_keys_made);
  return ucx::kOk;
}

ucx::Status deregister(ucx::Context, ucx::Memory memory) {
  const std::lock_guard lock(mutex);
  if (registered.erase(reinterpret_cast<std::uint64_t>(memory)) == 0) ++current->num_misused;
  ++current->num_deregistered;
  return ucx::kOk;
}

ucx::Status pack_key(ucx::Context, ucx::Memory memory, void** buffer, std::size_t* num_bytes) {
  const std::lock_guard lock(mutex);
  auto* packed = new std::string(std::to_string(reinterpret_cast<std::uint64_t>(memory)));
  packed_keys[packed->data()] = std::unique_ptr<std::string>(packed);
  *buffer = packed->data();
  *num_bytes = packed->size() + 1;
  return ucx::kOk;
}

ucx::Status unpack_key(ucx::Endpoint, const void* buffer, ucx::RemoteKey* key) {
  *key = reinterpret_cast<ucx::RemoteKey>(std::stoull(static_cast<const char*>(buffer)));
  ++current->num_keys;
  return ucx::kOk;
}

void* begin_operation(Operation operation) {
  const std::lock_guard lock(mutex);
  FakeWorker& owner = *operation.endpoint->owner;
  owner.operations.push_back(operation);
  const std::uint64_t one = 1;
  static_cast<void>(::write(owner.event, &one, sizeof one));
  return &current->num_puts;  // any address
}

void* begin_put(ucx::Endpoint endpoint, const void* data, std::size_t num_bytes, std::uint64_t to,
                ucx::RemoteKey key, const ucx::RequestParameters* parameters) {
  ++current->num_puts;
  return begin_operation({&endpoint_of(endpoint), data, num_bytes, to,
                          reinterpret_cast<std::uint64_t>(key), parameters->on_sent,
                          parameters->user_data});
}

void* begin_flush(ucx::Endpoint endpoint, const ucx::RequestParameters* parameters) {
  ++current->num_flushes;
  return begin_operation(
      {&endpoint_of(endpoint), nullptr, 0, 0, 0, parameters->on_sent, parameters->user_data});
}

void copy_put(const Operation& put) {
  const std::lock_guard lock(mutex);
  const auto found = registered.find(put.key);
  auto* to = reinterpret_cast<std::byte*>(put.to);
  if (found == registered.end() || to < found->second.begin ||
      to + put.num_bytes > found->second.end) {
    ++current->num_misused;
  } else {
    std::memcpy(to, put.data, put.num_bytes);
  }
}

void end_operation(const Operation& operation, ucx::Status status) {
  if (status == ucx::kOk && operation.data != nullptr) copy_put(operation);
  operation.on_done(&current->num_puts, status, operation.user_data);
}

bool are_held(const FakeWorker& worker) {
  return current->are_puts_held && !worker.operations.empty();
}

void end_operations(FakeWorker& worker) {
  std::vector<Operation> operations;
  {
    const std::lock_guard lock(mutex);
    if (!are_held(worker)) operations = std::exchange(worker.operations, {});
  }
  for (const Operation& operation : operations) end_operation(operation, ucx::kOk);
}

void fail_endpoints(FakeWorker& worker) {
  for (FakeEndpoint* endpoint : worker.endpoints) {
    if (std::exchange(endpoint->has_failed, true)) continue;
    endpoint->on_error(endpoint->on_error_argument, reinterpret_cast<ucx::Endpoint>(endpoint),
                       kReset);
  }
}

void* close_endpoint(ucx::Endpoint endpoint, const ucx::RequestParameters*) {
  FakeWorker& worker = *endpoint_of(endpoint).owner;
  std::vector<Operation> left;
  {
    const std::lock_guard lock(mutex);
    const auto of_others = std::stable_partition(
        worker.operations.begin(), worker.operations.end(),
        [&](const Operation& each) { return each.endpoint != &endpoint_of(endpoint); });
    left.assign(of_others, worker.operations.end());
    worker.operations.erase(of_others, worker.operations.end());
  }
  for (const Operation& operation : left) end_operation(operation, kCanceled);
  return nullptr;
}

void* send(ucx::Endpoint endpoint, unsigned, const void* header, std::size_t header_bytes,
           const void* data, std::size_t num_bytes, const ucx::RequestParameters*) {
  const std::lock_guard lock(mutex);
  const auto found = workers.find(endpoint_of(endpoint).to_worker);
  if (found == workers.end()) return nullptr;
  FakeWorker& worker = *found->second;
  worker.come.push_back({{static_cast<const char*>(header), header_bytes},
                         {static_cast<const char*>(data), num_bytes}});
  if (++current->num_sent == current->first_held) current->held_worker = worker.number;
  current->most_header = std::max(current->most_header.load(), header_bytes);
  const std::uint64_t one = 1;
  static_cast<void>(::write(worker.event, &one, sizeof one));
  return nullptr;
}

unsigned progress(ucx::Worker worker) {
  std::vector<Message> come;
  FakeWorker& self = worker_of(worker);
  if (current->has_failed) fail_endpoints(self);
  end_operations(self);
  {
    const std::lock_guard lock(mutex);
    if (is_held(self)) return 0;
    come = std::exchange(self.come, {});
  }
  if (current->turns_order) std::reverse(come.begin(), come.end());
  for (Message& message : come) {
    const ucx::ReceiveParameters parameters{};
    self.handler.function(self.handler.argument, message.header.data(), message.header.size(),
                          message.data.data(), message.data.size(), &parameters);
  }
  return static_cast<unsigned>(come.size());
}

ucx::Status arm(ucx::Worker worker) {
  const std::lock_guard lock(mutex);
  FakeWorker& self = worker_of(worker);
  if (!self.come.empty() && !is_held(self)) return ucx::kBusy;
  if (!self.operations.empty() && !are_held(self)) return ucx::kBusy;
  std::uint64_t count = 0;
  static_cast<void>(::read(self.event, &count, sizeof count));
  return ucx::kOk;
}

}  // namespace

FakeUcx::FakeUcx() {
  current = this;
}

FakeUcx::~FakeUcx() {
  endpoints.clear();
  registered.clear();
  packed_keys.clear();
  current = nullptr;
}

UcxLibrary FakeUcx::library() {
  UcxLibrary library;
  library.path = "a fake one";
  library.version = "1.22.0";
  library.minor = 22;
  ucx::Functions& functions = library.functions;
  functions.config_read = [](const char*, const char*, ucx::Config**) { return ucx::kOk; };
  functions.config_modify = [](ucx::Config*, const char*, const char*) { return ucx::kOk; };
  functions.config_release = [](ucx::Config*) {};
  functions.init_version = [](unsigned, unsigned, const ucx::ContextParameters*, const ucx::Config*,
                              ucx::Context*) { return ucx::kOk; };
  functions.cleanup = [](ucx::Context) {};
  functions.worker_create = create_worker;
  functions.worker_destroy = destroy_worker;
  functions.worker_get_address = address_of;
  functions.worker_release_address = [](ucx::Worker, ucx::Address*) {};
  functions.worker_get_efd = [](ucx::Worker worker, int* descriptor) {
    *descriptor = worker_of(worker).event;
    return ucx::kOk;
  };
  functions.worker_arm = arm;
  functions.worker_progress = progress;
  functions.worker_set_am_recv_handler = [](ucx::Worker worker,
                                            const ucx::HandlerParameters* parameters) {
    worker_of(worker).handler = *parameters;
    return ucx::kOk;
  };
  functions.ep_create = create_endpoint;
  functions.ep_close_nbx = close_endpoint;
  functions.am_send_nbx = send;
  functions.mem_map = register_memory;
  functions.mem_unmap = deregister;
  functions.rkey_pack = pack_key;
  functions.rkey_buffer_release = [](void* buffer) {
    const std::lock_guard lock(mutex);
    packed_keys.erase(buffer);
  };
  functions.ep_rkey_unpack = unpack_key;
  functions.rkey_destroy = [](ucx::RemoteKey) { --current->num_keys; };
  functions.put_nbx = begin_put;
  functions.ep_flush_nbx = begin_flush;
  functions.request_free = [](void*) {};
  return library;
}

}  // namespace tnt::comm::tests
