#include "tnt/comm/transport/rma/ucx/ucx_worker.hpp"

#include <iterator>
#include <utility>

#include "tnt/comm/base/error.hpp"
#include "tnt/comm/base/waiting.hpp"

namespace tnt::comm {
namespace {

constexpr unsigned kMessageId = 1;
constexpr double kLastPutsS = 0.1;

}  // namespace

UcxWorker::UcxWorker(UcxLibrary library, int rank, int size, const UcxNetwork& network)
    : library_(std::move(library)),
      rank_(rank),
      context_(library_, network, rank, size),
      peers_(static_cast<std::size_t>(size)) {
  try {
    open();
  } catch (...) {
    if (worker_ != nullptr) functions_.worker_destroy(worker_);
    throw;
  }
}

UcxWorker::~UcxWorker() {
  abandon_operations();
  if (operations_.empty()) keys_.clear();
  functions_.worker_destroy(worker_);
  for (const auto* left : {&operations_, &ready_}) {
    for (const Operation& operation : *left) {
      operation.message.on_sent(nullptr, ucx::kOk, operation.message.user_data);
    }
  }
}

// A key must not be destroyed while something is put by it. Only ranks that are gone or stopped
// let a put last until the end.
void UcxWorker::abandon_operations() {
  for (const Operation& operation : operations_) {
    if (std::exchange(operation.peer->has_failed, true)) continue;
    to_close_.push_back(operation.peer->endpoint);
  }
  close_failed();
  const Deadline deadline(kLastPutsS);
  while (!operations_.empty() && !deadline.is_over()) functions_.worker_progress(worker_);
}

void UcxWorker::open() {
  ucx::WorkerParameters worker{};
  worker.mask = ucx::WorkerParameters::kHasThreadMode;
  worker.thread_mode = ucx::WorkerParameters::kSerialized;
  require_ok(library_, rank_, functions_.worker_create(context_.handle(), &worker, &worker_),
             "ucp_worker_create");
  require_ok(library_, rank_, functions_.worker_get_efd(worker_, &descriptor_),
             "ucp_worker_get_efd");
  // Before others know the address: some versions crash by messages without a handler.
  set_receive_handler();
}

void UcxWorker::set_receive_handler() {
  ucx::HandlerParameters handler{};
  handler.mask = ucx::HandlerParameters::kHasId | ucx::HandlerParameters::kHasFlags |
                 ucx::HandlerParameters::kHasFunction | ucx::HandlerParameters::kHasArgument;
  handler.id = kMessageId;
  handler.flags = ucx::HandlerParameters::kWholeMessages;
  handler.argument = this;
  handler.function = [](void* self, const void* header, std::size_t header_bytes, void* data,
                        std::size_t num_bytes, const ucx::ReceiveParameters* parameters) {
    // No rank sends such: what stands there are not the data.
    if ((parameters->attributes & ucx::ReceiveParameters::kIsRendezvous) != 0) return ucx::kOk;
    static_cast<UcxWorker*>(self)->on_message_({static_cast<const char*>(header), header_bytes},
                                               {static_cast<const char*>(data), num_bytes});
    return ucx::kOk;
  };
  require_ok(library_, rank_, functions_.worker_set_am_recv_handler(worker_, &handler),
             "ucp_worker_set_am_recv_handler");
}

void UcxWorker::set_handlers(OnMessage on_message, OnFailure on_failure) {
  const std::lock_guard lock(mutex_);
  on_message_ = std::move(on_message);
  on_failure_ = std::move(on_failure);
}

std::string UcxWorker::address() const {
  ucx::Address* address = nullptr;
  std::size_t num_bytes = 0;
  require_ok(library_, rank_, functions_.worker_get_address(worker_, &address, &num_bytes),
             "ucp_worker_get_address");
  std::string result(reinterpret_cast<const char*>(address), num_bytes);
  functions_.worker_release_address(worker_, address);
  return result;
}

void UcxWorker::connect(int rank, const std::string& address) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  peer.worker = this;
  peer.rank = rank;
  ucx::EndpointParameters parameters{};
  parameters.mask = ucx::EndpointParameters::kHasAddress | ucx::EndpointParameters::kHasErrorMode |
                    ucx::EndpointParameters::kHasErrorHandler;
  parameters.address = reinterpret_cast<const ucx::Address*>(address.data());
  parameters.error_mode = ucx::EndpointParameters::kErrorsOfPeer;
  parameters.on_error = [](void* failed, ucx::Endpoint /*endpoint*/, ucx::Status /*status*/) {
    auto& failed_peer = *static_cast<Peer*>(failed);
    failed_peer.worker->fail(failed_peer);
  };
  parameters.on_error_argument = &peer;
  require_ok(library_, rank_, functions_.ep_create(worker_, &parameters, &peer.endpoint),
             text("ucp_ep_create for rank ", rank));
}

void UcxWorker::send(int rank, const Message& message) {
  const std::lock_guard lock(mutex_);
  send_locked(peers_[static_cast<std::size_t>(rank)], message);
}

void UcxWorker::send_locked(Peer& peer, const Message& message) {
  ucx::RequestParameters parameters{};
  parameters.mask = ucx::RequestParameters::kHasCallback | ucx::RequestParameters::kHasUserData |
                    ucx::RequestParameters::kHasFlags | ucx::RequestParameters::kCompletesFast;
  parameters.flags = ucx::RequestParameters::kEager;
  parameters.on_sent = message.on_sent;
  parameters.user_data = message.user_data;
  void* request = nullptr;
  if (!peer.has_failed && peer.endpoint != nullptr) {
    request = functions_.am_send_nbx(peer.endpoint, kMessageId, message.header.data(),
                                     message.header.size(), message.data.data(),
                                     message.data.size(), &parameters);
  }
  const bool has_failed = ucx::is_error(request);
  if (has_failed) fail(peer);
  if (request == nullptr || has_failed) message.on_sent(nullptr, ucx::kOk, message.user_data);
}

void UcxWorker::send_behind_puts(int rank, const Message& message) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.has_failed) return send_locked(peer, message);
  Operation& flush = begin(peer, message, true);
  const ucx::RequestParameters parameters = parameters_of(flush);
  take_returned(flush, functions_.ep_flush_nbx(peer.endpoint, &parameters));
  send_ready();
}

bool UcxWorker::put(int rank, const Put& put) {
  const std::lock_guard lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (peer.has_failed) return false;
  const auto target = keys_.find(rank, put.to_segment, peer.endpoint);
  if (!target) return false;
  Operation& operation = begin(peer, {{}, {}, put.on_done, put.user_data}, false);
  ucx::RequestParameters parameters = parameters_of(operation);
  if (put.source_memory != nullptr) {
    parameters.mask |= ucx::RequestParameters::kHasMemory;
    parameters.memory = put.source_memory;
  }
  take_returned(operation, functions_.put_nbx(peer.endpoint, put.source.data(), put.source.size(),
                                              target->address + put.to, target->key, &parameters));
  return true;
}

UcxWorker::Operation& UcxWorker::begin(Peer& peer, const Message& message, bool is_flush) {
  operations_.push_back({&peer, message, is_flush});
  operations_.back().self = std::prev(operations_.end());
  return operations_.back();
}

ucx::RequestParameters UcxWorker::parameters_of(Operation& operation) {
  ucx::RequestParameters parameters{};
  parameters.mask = ucx::RequestParameters::kHasCallback | ucx::RequestParameters::kHasUserData;
  parameters.user_data = &operation;
  parameters.on_sent = [](void* request, ucx::Status status, void* user_data) {
    auto& completed = *static_cast<Operation*>(user_data);
    UcxWorker& worker = *completed.peer->worker;
    worker.functions_.request_free(request);
    worker.complete(completed, status);
  };
  return parameters;
}

// Null: complete at once, without a callback.
void UcxWorker::take_returned(Operation& operation, void* returned) {
  if (returned == nullptr) complete(operation, ucx::kOk);
  if (ucx::is_error(returned)) complete(operation, ucx::error_of(returned));
}

// A put that fails means that the data is not there, so that nothing may be sent behind it.
void UcxWorker::complete(Operation& operation, ucx::Status status) {
  if (status != ucx::kOk) fail(*operation.peer);
  if (operation.is_flush) return ready_.splice(ready_.end(), operations_, operation.self);
  const Message message = operation.message;
  operations_.erase(operation.self);
  message.on_sent(nullptr, ucx::kOk, message.user_data);
}

// Not where a flush completes, which UCX tells in the midst of its own work.
void UcxWorker::send_ready() {
  while (!ready_.empty()) {
    const Operation flush = ready_.front();
    ready_.pop_front();
    send_locked(*flush.peer, flush.message);
  }
}

std::optional<RegisteredMemory> UcxWorker::register_memory(void* address, std::size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  return context_.register_memory(address, num_bytes);
}

void UcxWorker::deregister(const RegisteredMemory& memory) {
  const std::lock_guard lock(mutex_);
  context_.deregister(memory);
}

bool UcxWorker::try_progress() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  return lock.owns_lock() && progress_locked();
}

bool UcxWorker::progress() {
  const std::lock_guard lock(mutex_);
  return progress_locked();
}

bool UcxWorker::progress_locked() {
  const bool has_done_anything = functions_.worker_progress(worker_) != 0;
  if (!to_close_.empty()) close_failed();
  send_ready();
  return has_done_anything;
}

bool UcxWorker::arm() {
  const std::lock_guard lock(mutex_);
  return functions_.worker_arm(worker_) != ucx::kBusy;
}

void UcxWorker::fail(Peer& peer) {
  if (peer.has_failed) return;
  peer.has_failed = true;
  to_close_.push_back(peer.endpoint);
  on_failure_(peer.rank);
}

void UcxWorker::close_failed() {
  ucx::RequestParameters parameters{};
  parameters.mask = ucx::RequestParameters::kHasFlags;
  parameters.flags = ucx::RequestParameters::kForceClose;
  for (const ucx::Endpoint endpoint : std::exchange(to_close_, {})) {
    void* request = functions_.ep_close_nbx(endpoint, &parameters);
    if (request != nullptr && !ucx::is_error(request)) functions_.request_free(request);
  }
}

}  // namespace tnt::comm
