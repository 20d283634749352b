-- Records that the ledger has counters of a day. Those that changed since they were read stay in the set.
-- KEYS  1 hash of the day    2 set of changed fields
-- ARGV  field, value as read, ...

local fields, copied = {}, {}
for i = 1, #ARGV, 2 do fields[#fields + 1] = ARGV[i] end
for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do
  if (value or '') == ARGV[2 * i] then copied[#copied + 1] = fields[i] end
end
if #copied > 0 then redis.call('SREM', KEYS[2], unpack(copied)) end
return #copied
