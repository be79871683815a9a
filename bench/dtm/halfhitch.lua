-- Half Hitch: the raw half, and the commit of the handle that it was answered with.
-- Arguments: the folder of these scripts, the number of the run, the bytes of a body, the topic.

local folder = os.getenv("BENCH_DTM_FOLDER")
dofile(folder .. "/transaction.lua")

local filler, path, run, handle

function init(args)
   run, filler = args[1], string.rep("x", tonumber(args[2]) - 32)
   path = "/v1/topics/" .. args[3] .. "/half"
   wrk.headers["Half-Producer-Group"] = "bench"
end

function request()
   if is_ending then
      return wrk.format("POST", "/v1/transactions/" .. handle .. "/commit", nil, "")
   end
   return wrk.format("POST", path, nil, string.format("%08d%08d%016d%s", run, caller, number, filler))
end

function response(status, headers)
   if is_ending then
      went_on(status == 200)
   else
      handle = headers["Half-Handle"]
      went_on(status == 201 and handle ~= nil)
   end
end
