# Compile options that every target of this project has.
add_library(tnt_comm_options INTERFACE)
target_compile_options(tnt_comm_options INTERFACE
  -Wall -Wextra -Wconversion
  # Sums must have the same bits in every kernel variant.
  -ffp-contract=off
  $<$<BOOL:${TNT_COMM_WERROR}>:-Werror>)
target_include_directories(tnt_comm_options INTERFACE
  ${PROJECT_SOURCE_DIR}/cpp ${PROJECT_SOURCE_DIR}/include)
if(TNT_COMM_SANITIZER)
  target_compile_options(tnt_comm_options INTERFACE
    -fsanitize=${TNT_COMM_SANITIZER} -fno-omit-frame-pointer -g
    # What sanitizers add hides from g++ that a variable is set.
    -Wno-maybe-uninitialized)
  target_link_options(tnt_comm_options INTERFACE -fsanitize=${TNT_COMM_SANITIZER})
endif()

# tnt_layer(<name> SOURCES <files>... LINKS <layers below>...)
#
# One static library per layer, unless all of it is in headers. What a layer may include is what it links, so
# an arrow that points up fails to link, or shows here.
function(tnt_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 LAYER "" "" "SOURCES;LINKS")
  list(TRANSFORM LAYER_LINKS PREPEND tnt_comm_)
  if(LAYER_SOURCES)
    add_library(tnt_comm_${name} STATIC ${LAYER_SOURCES})
    target_link_libraries(tnt_comm_${name} PUBLIC tnt_comm_options ${LAYER_LINKS})
  else()
    add_library(tnt_comm_${name} INTERFACE)
    target_link_libraries(tnt_comm_${name} INTERFACE tnt_comm_options ${LAYER_LINKS})
  endif()
endfunction()
