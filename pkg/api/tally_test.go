package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/api"
)

func TestCallOutcomes(t *testing.T) {
	for _, o := range api.CallOutcomes {
		require.True(t, o.Known(), o)
		require.Equal(t, o == api.CallServed || o == api.CallNotFound, o.Charged(), o)
	}
	require.False(t, api.CallOutcome("").Known())
	require.False(t, api.CallOutcome("Served").Known())
}
