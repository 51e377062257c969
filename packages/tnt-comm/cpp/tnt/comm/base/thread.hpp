#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace tnt::comm {

/// Starts a thread of this library. Signals belong to the program's own threads
/// (Python handles them in its main thread), so it has all of them blocked.
/// `name` has at most 15 characters. CommError if there can be no more threads.
std::thread start_without_signals(const char* name, std::function<void()> body);

/// A call that may never return, made by a thread of its own: whoever has waited
/// long enough leaves it behind.
class DetachableCall {
 public:
  /// Starts the call. `name` of the thread has at most 15 characters. What `function`
  /// uses must live as long as the process does, or be owned by it.
  DetachableCall(const char* name, std::function<void()> function);

  /// Leaves the call behind if it has not returned.
  ~DetachableCall();
  DetachableCall(const DetachableCall&) = delete;
  DetachableCall& operator=(const DetachableCall&) = delete;

  bool has_returned() const;

  /// Throws what the call has thrown. After it has returned only.
  void get();

 private:
  struct Outcome;

  std::shared_ptr<Outcome> outcome_;
  std::thread thread_;
};

}  // namespace tnt::comm
