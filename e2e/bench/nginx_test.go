package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNginxLimitsOnlyWithRedis(t *testing.T) {
	n := nginx{Listen: "127.0.0.1:1", Service: "127.0.0.1:2", Dir: "/tmp/x", Header: map[string]string{"X-Caller": `{"tier":"a"}`}}
	text, err := n.config()
	require.NoError(t, err)
	require.NotContains(t, text, "lua")
	require.Contains(t, text, "server 127.0.0.1:2;")
	require.Contains(t, text, `proxy_set_header X-Caller '{"tier":"a"}';`)

	n.RedisHost, n.RedisPort, n.Keys, n.PerMinute = "127.0.0.1", "3", []string{"first", "second"}, 60
	text, err = n.config()
	require.NoError(t, err)
	require.Contains(t, text, limitScript)
	require.Contains(t, text, `["Bearer second"] = "1"`)
	require.Contains(t, text, `red:connect("127.0.0.1", 3)`)
	require.Contains(t, text, `"nginx:" .. account, 60)`)
}
