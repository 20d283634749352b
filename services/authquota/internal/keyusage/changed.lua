-- Returns a page of the counters of a day that the ledger lacks.
-- KEYS  1 hash of the day    2 set of changed fields
-- ARGV  1 cursor; 0 for the first page    2 size of the page
-- Returns the cursor of the next page, or 0 if there is none, then fields of the day and their values; '' if the day has none.

local page = redis.call('SSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
local fields, values = page[2], {}
for first = 1, #fields, 1000 do -- unpack is limited to a few thousand values
  local part = redis.call('HMGET', KEYS[1], unpack(fields, first, math.min(first + 999, #fields)))
  for i = 1, #part do values[#values + 1] = part[i] or '' end
end
return { page[1], fields, values }
