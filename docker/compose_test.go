package docker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
)

// compose loads compose.yaml like `docker compose`, with the secrets from docker/env.
func compose(t *testing.T) *types.Project {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile("env")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "env"), script, 0o700))
	out, err := exec.Command(filepath.Join(dir, "env")).CombinedOutput()
	require.NoError(t, err, string(out))
	secrets, err := dotenv.Read(filepath.Join(dir, ".env"))
	require.NoError(t, err)

	here, err := os.Getwd()
	require.NoError(t, err)
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: here, ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(here, "compose.yaml")}},
		Environment: secrets,
	})
	require.NoError(t, err)
	return project
}

func TestComposeRunsEveryServiceHardened(t *testing.T) {
	project := compose(t)
	for _, name := range names(t) {
		service, ok := project.Services[name]
		if name == "opportunity" {
			service, ok = project.Services["demo"]
		}
		require.True(t, ok, name)
		require.Equal(t, name, *service.Build.Args["SERVICE"])
		ours := []types.ServiceConfig{service}
		if migration, ok := project.Services[name+"-migrate"]; ok {
			require.Equal(t, types.ServiceConditionCompletedSuccessfully, service.DependsOn[name+"-migrate"].Condition)
			require.Equal(t, name, *migration.Environment["OPPORTUNITY_DATABASE_SERVING_ROLE"])
			ours = append(ours, migration)
		}
		for _, s := range ours {
			require.True(t, s.ReadOnly, s.Name)
			require.Equal(t, []string{"ALL"}, s.CapDrop, s.Name)
			require.Equal(t, []string{"no-new-privileges:true"}, s.SecurityOpt, s.Name)
			require.True(t, strings.HasPrefix(s.Image, "opportunity/"+name+":"), s.Name)
		}
		if name != "opportunity" {
			require.Equal(t, types.HealthCheckTest{"CMD", "/" + name, "ready"}, service.HealthCheck.Test)
		}
	}
}

// TestComposeServices checks what docker compose accepts silently: a container that exits fails `up
// --wait` unless another one waits for its exit; docker makes an empty folder for a missing file.
// The demo has sandbox payments and keys in a file, so ports are open on the loopback address only.
func TestComposeServices(t *testing.T) {
	project := compose(t)
	awaited, stores := map[string]bool{}, 0
	for _, service := range project.Services {
		for name, dependency := range service.DependsOn {
			switch dependency.Condition {
			case types.ServiceConditionCompletedSuccessfully:
				awaited[name] = true
			case types.ServiceConditionHealthy:
				require.NotNil(t, project.Services[name].HealthCheck, "%s waits for the health of %s", service.Name, name)
			}
		}
	}
	for _, service := range project.Services {
		require.Equal(t, strings.HasPrefix(service.Restart, "on-failure"), awaited[service.Name], service.Name)
		for _, port := range service.Ports {
			require.Equal(t, "127.0.0.1", port.HostIP, service.Name)
		}
		for _, volume := range service.Volumes {
			if volume.Type == types.VolumeTypeBind && filepath.Base(volume.Source) != "demo" { // created by docker/env
				_, err := os.Stat(volume.Source)
				require.NoError(t, err, service.Name)
			}
		}
		if service.Environment["OPPORTUNITY_DATABASE_URL"] != nil || service.Environment["OPPORTUNITY_REDIS_URL"] != nil {
			stores++
			require.Equal(t, "true", *service.Environment["OPPORTUNITY_ALLOW_PLAINTEXT_STORES"], service.Name)
		}
	}
	require.Equal(t, 9, stores, "five services and four migrations")
}
