// The operations of this library, one registration function per file.
#pragma once

namespace tnt::keras {

void register_reduce_ops();
void register_gather_ops();
<<<<<<< HEAD
void register_broadcast_ops();
void register_allreduce_op();
=======
void register_draw_ops();
>>>>>>> main

}  // namespace tnt::keras
