-- What both loads share. wrk runs each connection in a thread of its own (as many threads as
-- connections), so a thread is one caller: it prepares, ends what it has prepared, and again. What was
-- answered wrongly is sent once more, so the numbers of a caller's ended transactions are 1 to `ended`.
-- A request is made again and again from the same state: wrk asks for one before it begins.

local callers = {}
number, ended, failed, is_ending = 1, 0, 0, false

function setup(thread)
   table.insert(callers, thread)
   thread:set("caller", #callers)
end

-- For the harness, in one line: of each caller how many were ended, and whether one more may have been.
function done(summary, latency)
   local each, failed_count = {}, 0
   for _, thread in ipairs(callers) do
      table.insert(each, string.format("[%d,%d]", thread:get("ended"), thread:get("is_ending") and 1 or 0))
      failed_count = failed_count + thread:get("failed")
   end
   local errors = summary.errors
   print(string.format(
      'told {"seconds":%.6f,"request_p50_ms":%.3f,"request_p99_ms":%.3f,"failed":%d,"broken":%d,"callers":[%s]}',
      summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3, failed_count,
      errors.connect + errors.read + errors.write + errors.timeout, table.concat(each, ",")))
end

-- ANSWERED: was it answered as it should be?
function went_on(answered)
   if not answered then
      failed = failed + 1
   elseif is_ending then
      ended, number, is_ending = ended + 1, number + 1, false
   else
      is_ending = true
   end
end
