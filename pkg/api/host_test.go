package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "db": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "0.0.0.0": false,
		"::": false, "10.0.0.1": false, "127": false,
	} {
		require.Equal(t, want, api.IsLoopback(host), host)
	}
}
