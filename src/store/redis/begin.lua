-- The business before the run. ARGV: prefix, items, field, what each item holds.
local prefix, items, field, each = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
if redis.call('EXISTS', prefix .. '0') == 1 then
  return redis.error_reply('the prefix ' .. prefix .. ' is in use')
end
for item = 0, items - 1 do
  redis.call('HSET', prefix .. item, 'initial', each, field, each, 'version', 0, 'fence', 0)
end
return items
