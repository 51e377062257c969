// The operations of this library, one registration function per file.
#pragma once

namespace tnt::keras {

void register_reduce_ops();
void register_device_reduce_ops();
void register_gather_ops();
void register_broadcast_ops();
void register_allreduce_op();
void register_combine_ops();
void register_draw_ops();

}  // namespace tnt::keras
