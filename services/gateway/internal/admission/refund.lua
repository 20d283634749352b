-- Refunds one call to an account and to the service, on the day that it was charged to. The minute window stays charged.
--
-- KEYS  1 hash of that day    2 hash of merged accounts: account -> account that took it over
-- ARGV  1 account    2 field of all accounts    3 field of the base tier, if the call was charged to it; otherwise empty
-- Replies the remaining calls of that day, of the account or of the one that took it over; -1 if the hash does not exist.
-- Without a charge to refund, nothing changes: after data loss in Redis the call may be missing from the hash.

local account = ARGV[1]
local spent = redis.call('HMGET', KEYS[1], account, ARGV[2])
if not spent[2] then return -1 end
if not spent[1] then -- the calls of a merged account were moved
  account = redis.call('HGET', KEYS[2], account) or account
  spent[1] = redis.call('HGET', KEYS[1], account)
end
local function calls(text) return text and string.match(text, '^%d+$') and #text <= 10 and tonumber(text) or 0 end
local used, all = calls(spent[1]), calls(spent[2])
if used < 1 then return 0 end
redis.call('HSET', KEYS[1], account, string.format('%.0f', used - 1), ARGV[2], string.format('%.0f', math.max(0, all - 1)))
local of_base = ARGV[3] ~= '' and calls(redis.call('HGET', KEYS[1], ARGV[3])) or 0
if of_base > 0 then redis.call('HSET', KEYS[1], ARGV[3], string.format('%.0f', of_base - 1)) end
return used - 1
