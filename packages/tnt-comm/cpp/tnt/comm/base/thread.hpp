#pragma once

#include <functional>
#include <thread>

namespace tnt::comm {

/// Starts a thread of this library. Signals belong to the program's own threads
/// (Python handles them in its main thread), so it has all of them blocked.
/// `name` has at most 15 characters. CommError if there can be no more threads.
std::thread start_without_signals(const char* name, std::function<void()> body);

}  // namespace tnt::comm
