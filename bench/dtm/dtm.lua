-- dtm: prepare and submit of a message with one step, each with all of it, as dtm's own clients send it.
-- Arguments: the folder of these scripts, the number of the run, the bytes of a body, the subscriber.

local folder = os.getenv("BENCH_DTM_FOLDER")
dofile(folder .. "/transaction.lua")

local filler, run, rest

function init(args)
   run, filler = args[1], string.rep("x", tonumber(args[2]) - 2)
   -- A payload is JSON in a string: here a string, whose two marks are part of its bytes.
   rest = string.format(
      '","trans_type":"msg","steps":[{"action":"%s/branch"}],"payloads":["\\"%s\\""],"query_prepared":"%s/query",' ..
      '"protocol":"http"}', args[3], filler, args[3])
   wrk.headers["Content-Type"] = "application/json"
end

function request()
   local body = string.format('{"gid":"%d-%d-%d', run, caller, number) .. rest
   return wrk.format("POST", is_ending and "/api/dtmsvr/submit" or "/api/dtmsvr/prepare", nil, body)
end

function response(status, headers, body)
   went_on(status == 200 and string.find(body, "SUCCESS", 1, true) ~= nil)
end
