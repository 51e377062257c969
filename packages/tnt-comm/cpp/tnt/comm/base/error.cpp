#include "tnt/comm/base/error.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <new>

namespace tnt::comm {
namespace {

constexpr const char* kUnknown = "An unknown exception was thrown.";

}  // namespace

Error Error::current() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return {ErrorKind::comm, error.what()};
  } catch (...) {
    return {ErrorKind::comm, kUnknown};
  }
}

const char* Error::what() const noexcept {
  return what_->c_str();
}

UsageError::~UsageError() = default;

StandardError standard_error_of(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::bad_alloc& error) {
    return {true, error.what()};
  } catch (const std::exception& error) {
    return {false, error.what()};
  } catch (...) {
    return {false, kUnknown};
  }
}

void Error::raise() const {
  if (kind_ == ErrorKind::usage) throw UsageError(*what_);
  throw Error(*this);
}

namespace {

// Whether a byte of UTF-8 is inside a character, and not its first.
bool is_inside_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
}

constexpr std::array<std::string_view, 4> kLevelNames = {"DEBUG", "INFO", "WARNING", "ERROR"};

std::atomic<LogLevel> least_level{LogLevel::warning};

}  // namespace

std::string_view first_bytes(std::string_view whole, std::size_t count) {
  if (whole.size() <= count) return whole;
  while (count > 0 && is_inside_character(whole[count])) --count;
  return whole.substr(0, count);
}

std::string_view last_bytes(std::string_view whole, std::size_t count) {
  if (whole.size() <= count) return whole;
  std::size_t begin = whole.size() - count;
  while (begin < whole.size() && is_inside_character(whole[begin])) ++begin;
  return whole.substr(begin);
}

std::string_view full_stop_after(std::string_view text) {
  return text.ends_with('.') ? "" : ".";
}

std::string listed(std::size_t count, std::size_t most,
                   const std::function<std::string(std::size_t)>& name_at) {
  std::string result;
  for (std::size_t i = 0; i < std::min(count, most); ++i) {
    result += (i == 0 ? "" : ", ") + name_at(i);
  }
  return count > most ? text(result, " and ", count - most, " more") : result;
}

std::string names_of_ranks(const std::vector<int>& ranks,
                           const std::function<std::string(int)>& name_of) {
  return text(ranks.size() == 1 ? "rank" : "ranks", ranks.empty() ? "" : " ",
              listed(ranks.size(), 10, [&](std::size_t i) {
                return name_of ? name_of(ranks[i]) : std::to_string(ranks[i]);
              }));
}

void set_log_level(LogLevel least) {
  least_level.store(least);
}

bool is_logged(LogLevel level) {
  return level >= least_level.load(std::memory_order_relaxed);
}

void log(LogLevel level, int rank, const std::string& message) {
  if (!is_logged(level)) return;
  const std::string line = text(kLevelNames[static_cast<std::size_t>(level)], " tnt-comm rank ",
                                rank, ": ", message, "\n");
  // Nothing sensible can be done when stderr is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace tnt::comm
