"""What `tarantella doctor` runs on each host: processes that tell what they find as lines of JSON.

Nothing is judged here. The launcher does that (`tnt_launch.doctor`), which must not import
TensorFlow and the like; these processes may. What can hang or crash runs in a process of its own.
"""
