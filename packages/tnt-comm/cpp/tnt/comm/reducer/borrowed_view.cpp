#include "tnt/comm/reducer/borrowed_view.hpp"

#include <utility>

#include "tnt/comm/base/process.hpp"

namespace tnt::comm {

BorrowedView::BorrowedView(std::shared_ptr<DoubleBuffer> slots, std::size_t slot,
                           std::size_t offset)
    : slots_(std::move(slots)), slot_(slot), data_(slots_->data_of(slot) + offset) {}

BorrowedView::~BorrowedView() {
  if (!is_forked_child()) slots_->take_back(slot_);
}

}  // namespace tnt::comm
