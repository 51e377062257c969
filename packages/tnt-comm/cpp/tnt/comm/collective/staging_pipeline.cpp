#include "tnt/comm/collective/staging_pipeline.hpp"

namespace tnt::comm {

void StagingPipeline::begin(std::uint64_t num_posted) {
  base_ = stream_->next_block;
  posted_ = num_posted;
  reduced_ = finished_ = 0;
}

bool StagingPipeline::advance(StagedWork& work) {
  bool has_moved = try_reduce(work);
  has_moved |= try_finish(work);
  return has_moved;
}

bool StagingPipeline::try_post(StagedWork& work) {
  if (posted_ == work.num_blocks || posted_ == finished_ + channel().depth()) return false;
  work.copy_in(posted_);
  stream_->channel.post(base_ + posted_);
  ++posted_;
  return true;
}

bool StagingPipeline::try_reduce(StagedWork& work) {
  if (reduced_ == posted_ || !channel().have_all_posted(base_ + reduced_)) return false;
  if (work.has_second_round) {
    if (!work.reduce(reduced_)) return true;
    stream_->channel.publish_reduced(base_ + reduced_);
  }
  ++reduced_;
  return true;
}

bool StagingPipeline::try_finish(StagedWork& work) {
  if (finished_ == reduced_) return false;
  if (work.has_second_round && !channel().have_all_reduced(base_ + finished_)) return false;
  work.copy_out(finished_);
  ++finished_;
  return true;
}

std::vector<int> StagingPipeline::missing() const {
  if (reduced_ < posted_) return channel().missing_posts(base_ + reduced_);
  if (finished_ < reduced_) return channel().missing_reductions(base_ + finished_);
  return {};
}

}  // namespace tnt::comm
