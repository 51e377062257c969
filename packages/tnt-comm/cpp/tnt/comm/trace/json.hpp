#pragma once

#include <string>
#include <string_view>

namespace tnt::comm {

/// A text as JSON string, with its quotes. Bytes that are no UTF-8 become '?',
/// since names come from everywhere and the file must stay valid.
std::string quoted(std::string_view text);

}  // namespace tnt::comm
