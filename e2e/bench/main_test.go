package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLargePartsRunOnlyByName(t *testing.T) {
	names := func(only string) (names []string) {
		chosen, err := choose(only)
		require.NoError(t, err)
		for _, p := range chosen {
			names = append(names, p.name)
		}
		return names
	}
	require.NotContains(t, names(""), "million")
	require.Contains(t, names(""), "gateway")
	require.Equal(t, []string{"gateway", "million"}, names("million,gateway"))
	_, err := choose("gateway,nothing")
	require.ErrorContains(t, err, "use gateway, ")
}
