#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace tnt::comm {

/// Sleeps until the word is woken, but not when it no longer holds
/// `expected`, and at most `timeout`. May return early for no reason. The word
/// may lie in memory shared between processes.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::nanoseconds timeout);

/// Wakes everybody who sleeps on the word.
void futex_wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace tnt::comm
