-- Stores the newest change of authquota's database, unless it is older than the stored one. Returns the stored one.
-- KEYS[1] newest change   ARGV[1] sequence, 0 for none   ARGV[2] id   ARGV[3] TTL in seconds
local known = redis.call('GET', KEYS[1]) or ''
local sequence = tonumber(string.match(known, '^%d+') or '0')
if tonumber(ARGV[1]) > sequence then
  known = ARGV[1] .. '.' .. ARGV[2]
end
if known ~= '' then
  redis.call('SET', KEYS[1], known, 'EX', ARGV[3])
end
return known
