help([[Tarantella trains Keras models on many CPUs or GPUs: tarantella -n 2 -- train.py]])
whatis("Name: tarantella")
whatis("Version: " .. myModuleVersion())
whatis("URL: https://github.com/cc-hpc-itwm/tarantella")

-- The environment of each version lies in a folder of its own.
local environment = pathJoin("/opt/apps/tarantella", myModuleVersion())
-- UCX of the cluster: that of the wheels knows TCP alone.
local ucx = "/usr/lib64/libucp.so.0"

conflict("tarantella")
setenv("VIRTUAL_ENV", environment)
prepend_path("PATH", pathJoin(environment, "bin"))
if isFile(ucx) then
    setenv("TNT_UCX_LIBRARY", ucx)
end
