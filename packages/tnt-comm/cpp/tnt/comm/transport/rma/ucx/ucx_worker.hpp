#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tnt/comm/transport/rma/ucx/ucx_library.hpp"
#include "tnt/comm/transport/rma/ucx/ucx_segments.hpp"

namespace tnt::comm {

/// UCX in this process: one context, one worker, and an endpoint for each other rank, for active
/// messages and RDMA puts. A message is a header and up to kMostBytes of data, and arrives whole.
///
/// UCX is told that only one thread calls it at a time (SERIALIZED), for which there is a mutex
/// here; both handlers run while it is held, and so does what is called when a request is complete.
///
/// Threads: all functions may be called from any thread, but none from a handler.
class UcxWorker {
 public:
  /// What arrives: the header, and data that is valid until the handler returns.
  using OnMessage = std::function<void(std::string_view header, std::string_view data)>;
  /// An endpoint has failed, by which its rank is gone: nothing more can be sent to it.
  using OnFailure = std::function<void(int rank)>;

  static constexpr std::size_t kMostBytes = UcxNetwork::kMostMessageBytes;

  /// CommError.
  UcxWorker(UcxLibrary library, int rank, int size, const UcxNetwork& network)
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

  ~UcxWorker() {
    abandon_operations();
    if (operations_.empty()) keys_.clear();
    functions_.worker_destroy(worker_);
    for (const auto* left : {&operations_, &ready_}) {
      for (const Operation& operation : *left) {
        operation.message.on_sent(nullptr, ucx::kOk, operation.message.user_data);
      }
    }
  }

  UcxWorker(UcxWorker&&) = delete;

  const UcxLibrary& library() const { return library_; }

  /// Before anything is sent or received.
  void set_handlers(OnMessage on_message, OnFailure on_failure) {
    const std::lock_guard lock(mutex_);
    on_message_ = std::move(on_message);
    on_failure_ = std::move(on_failure);
  }

  /// Which others need to connect() to this rank.
  std::string address() const {
    ucx::Address* address = nullptr;
    std::size_t num_bytes = 0;
    require_ok(library_, rank_, functions_.worker_get_address(worker_, &address, &num_bytes),
               "ucp_worker_get_address");
    std::string result(reinterpret_cast<const char*>(address), num_bytes);
    functions_.worker_release_address(worker_, address);
    return result;
  }

  void connect(int rank, const std::string& address) {
    const std::lock_guard lock(mutex_);
    Peer& peer = at(peers_, rank);
    peer.worker = this;
    peer.rank = rank;
    ucx::EndpointParameters parameters{};
    parameters.mask = ucx::EndpointParameters::kHasAddress |
                      ucx::EndpointParameters::kHasErrorMode |
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

  /// A message on its way; `header` and the data must stay until `on_sent` is called, once, by
  /// progress(), or by send() itself.
  struct Message {
    std::string_view header;
    std::string_view data;
    ucx::SentHandler on_sent = nullptr;
    void* user_data = nullptr;
  };

  /// What cannot be sent, since the rank is gone, counts as sent.
  void send(int rank, const Message& message) {
    const std::lock_guard lock(mutex_);
    send_locked(at(peers_, rank), message);
  }

  /// The same, but it leaves only when all that was put to that rank before is in its memory.
  void send_behind_puts(int rank, const Message& message) {
    const std::lock_guard lock(mutex_);
    Peer& peer = at(peers_, rank);
    if (peer.has_failed) return send_locked(peer, message);
    Operation& flush = begin(peer, message, true);
    const ucx::RequestParameters parameters = parameters_of(flush);
    take_returned(flush, functions_.ep_flush_nbx(peer.endpoint, &parameters));
    send_ready();
  }

  /// Data of this rank that goes into a segment of another; `source` must stay as it is until
  /// `on_done` is called, as `on_sent` of a message.
  struct Put {
    std::string_view source;
    ucx::Memory source_memory = nullptr;  ///< if it is registered
    SegmentId to_segment = 0;
    std::uint64_t to = 0;  ///< offset in it
    ucx::SentHandler on_done = nullptr;
    void* user_data = nullptr;
  };

  /// False, and nothing has happened, if the segment's key is not known or the rank is gone.
  bool put(int rank, const Put& put) {
    const std::lock_guard lock(mutex_);
    Peer& peer = at(peers_, rank);
    if (peer.has_failed) return false;
    const auto target = keys_.find(rank, put.to_segment, peer.endpoint);
    if (!target) return false;
    Operation& operation = begin(peer, {{}, {}, put.on_done, put.user_data}, false);
    ucx::RequestParameters parameters = parameters_of(operation);
    if (put.source_memory != nullptr) {
      parameters.mask |= ucx::RequestParameters::kHasMemory;
      parameters.memory = put.source_memory;
    }
    take_returned(operation,
                  functions_.put_nbx(peer.endpoint, put.source.data(), put.source.size(),
                                     target->address + put.to, target->key, &parameters));
    return true;
  }

  /// For the handler of messages.
  RemoteKeys& remote_keys() { return keys_; }

  /// See UcxContext.
  std::optional<RegisteredMemory> register_memory(void* address, std::size_t num_bytes) {
    const std::lock_guard lock(mutex_);
    return context_.register_memory(address, num_bytes);
  }

  void deregister(const RegisteredMemory& memory) {
    const std::lock_guard lock(mutex_);
    context_.deregister(memory);
  }

  /// Lets messages go on; true if there was anything to do. Returns false at once if another thread
  /// does it already.
  bool try_progress() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock.owns_lock() && progress_locked();
  }

  /// The same, and waits for the other thread.
  bool progress() {
    const std::lock_guard lock(mutex_);
    return progress_locked();
  }

  /// Whether the descriptor becomes readable with the next event: if not, there are some already.
  bool arm() {
    const std::lock_guard lock(mutex_);
    return functions_.worker_arm(worker_) != ucx::kBusy;
  }

  int descriptor() const { return descriptor_; }

 private:
  static constexpr unsigned kMessageId = 1;

  struct Peer {
    UcxWorker* worker = nullptr;
    int rank = 0;
    ucx::Endpoint endpoint = nullptr;
    bool has_failed = false;
  };

  /// A put or a flush that is not complete.
  struct Operation {
    Peer* peer;
    Message message;  ///< behind the flush; of a put only what is called at its end
    bool is_flush;
    std::list<Operation>::iterator self = {};
  };

  void open() {
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

  void set_receive_handler() {
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

  void send_locked(Peer& peer, const Message& message) {
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

  Operation& begin(Peer& peer, const Message& message, bool is_flush) {
    operations_.push_back({&peer, message, is_flush});
    operations_.back().self = std::prev(operations_.end());
    return operations_.back();
  }

  // Null: complete at once, without a callback.
  void take_returned(Operation& operation, void* returned) {
    if (returned == nullptr) complete(operation, ucx::kOk);
    if (ucx::is_error(returned)) complete(operation, ucx::error_of(returned));
  }

  // A put that fails means that the data is not there, so that nothing may be sent behind it.
  void complete(Operation& operation, ucx::Status status) {
    if (status != ucx::kOk) fail(*operation.peer);
    if (operation.is_flush) return ready_.splice(ready_.end(), operations_, operation.self);
    const Message message = operation.message;
    operations_.erase(operation.self);
    message.on_sent(nullptr, ucx::kOk, message.user_data);
  }

  // Not where a flush completes, which UCX tells in the midst of its own work.
  void send_ready() {
    while (!ready_.empty()) {
      const Operation flush = ready_.front();
      ready_.pop_front();
      send_locked(*flush.peer, flush.message);
    }
  }

  bool progress_locked() {
    const bool has_done_anything = functions_.worker_progress(worker_) != 0;
    if (!to_close_.empty()) close_failed();
    send_ready();
    return has_done_anything;
  }

  void fail(Peer& peer) {
    if (peer.has_failed) return;
    peer.has_failed = true;
    to_close_.push_back(peer.endpoint);
    on_failure_(peer.rank);
  }

  void close_failed() {
    ucx::RequestParameters parameters{};
    parameters.mask = ucx::RequestParameters::kHasFlags;
    parameters.flags = ucx::RequestParameters::kForceClose;
    for (const ucx::Endpoint endpoint : std::exchange(to_close_, {})) {
      void* request = functions_.ep_close_nbx(endpoint, &parameters);
      if (request != nullptr && !ucx::is_error(request)) functions_.request_free(request);
    }
  }

  // A key must not be destroyed while something is put by it. Only ranks that are gone or stopped
  // let a put last until the end.
  void abandon_operations() {
    for (const Operation& operation : operations_) {
      if (std::exchange(operation.peer->has_failed, true)) continue;
      to_close_.push_back(operation.peer->endpoint);
    }
    close_failed();
    constexpr double kLastPutsS = 0.1;
    const Deadline deadline(kLastPutsS);
    while (!operations_.empty() && !deadline.is_over()) functions_.worker_progress(worker_);
  }

  static ucx::RequestParameters parameters_of(Operation& operation) {
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

  UcxLibrary library_;
  const ucx::Functions& functions_ = library_.functions;
  int rank_;
  UcxContext context_;
  ucx::Worker worker_ = nullptr;
  int descriptor_ = -1;
  OnMessage on_message_;
  OnFailure on_failure_;
  std::mutex mutex_;
  std::vector<Peer> peers_;
  std::vector<ucx::Endpoint> to_close_;  // which their own handlers must not do
  RemoteKeys keys_{functions_};
  std::list<Operation> operations_;  // which UCX has
  std::list<Operation> ready_;       // complete flushes whose message is to be sent
};

}  // namespace tnt::comm
