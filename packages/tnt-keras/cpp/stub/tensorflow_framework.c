/* Stands in for libtensorflow_framework.so.2 when the operations are linked.
 *
 * It is empty: only its soname matters. The linker records that name as needed, and at run time the
 * library of that name that TensorFlow has loaded satisfies it. */
