package docker_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/dotenv"
	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// names returns the names of all images: one for each service, and that of the command.
func names(t *testing.T) []string {
	t.Helper()
	mains, err := filepath.Glob("../services/*/cmd/*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(mains), 4)
	all := []string{"opportunity"}
	for _, main := range mains {
		all = append(all, filepath.Base(main))
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// TestDockerfileHasEveryService exists because a go.mod that is not copied breaks the build of
// every image, which otherwise shows only when images are built.
func TestDockerfileHasEveryService(t *testing.T) {
	dockerfile := read(t, "Dockerfile")
	for _, name := range names(t) {
		require.Contains(t, dockerfile, "\nFROM image AS "+name+"\nENTRYPOINT [\"/"+name+"\"]\n")
		module := "services/" + name
		if name == "opportunity" {
			module = "cmd/opportunity"
		}
		needed := []string{module}
		for line := range strings.Lines(read(t, filepath.Join("..", module, "go.mod"))) {
			if _, path, replaced := strings.Cut(line, " => "); replaced {
				needed = append(needed, filepath.Join(module, strings.TrimSpace(path)))
			}
		}
		for _, path := range needed {
			files := path + "/go.mod "
			if _, err := os.Stat(filepath.Join("..", path, "go.sum")); err == nil { // none without dependencies
				files += path + "/go.sum "
			}
			require.Contains(t, dockerfile, "\nCOPY "+files+path+"/\n")
		}
	}
	require.Contains(t, dockerfile, "-buildid= $STAMP", "the version of the command")
	require.NotContains(t, dockerfile, "# syntax=", "the build must not need a registry for its syntax")
}

// TestContextHasEveryCopiedFile checks that .dockerignore, which excludes everything first,
// includes what the build copies by name.
func TestContextHasEveryCopiedFile(t *testing.T) {
	included := regexp.MustCompile(`(?m)^!(\S+)$`).FindAllStringSubmatch(read(t, "../.dockerignore"), -1)
	copies := regexp.MustCompile(`(?m)^COPY ([a-z].*) \S+$`).FindAllStringSubmatch(read(t, "Dockerfile"), -1)
	require.NotEmpty(t, copies)
	for _, line := range copies {
		for _, source := range strings.Fields(line[1]) {
			_, err := os.Stat(filepath.Join("..", source))
			require.NoError(t, err)
			require.True(t, slices.ContainsFunc(included, func(pattern []string) bool {
				matched, err := path.Match(pattern[1], source)
				return err == nil && matched || strings.HasPrefix(source, pattern[1]+"/")
			}), "%s is not in the context", source)
		}
	}
}

// TestWorkflowsRunPinnedActionsWithFewRights checks that no workflow runs an action by a tag, which
// its owner can move, and that jobs have only the rights that they name.
func TestWorkflowsRunPinnedActionsWithFewRights(t *testing.T) {
	files, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		text := read(t, file)
		for _, action := range regexp.MustCompile(`uses: *(\S+)`).FindAllStringSubmatch(text, -1) {
			require.Regexp(t, `^[\w/-]+@[0-9a-f]{40}$`, action[1], file)
		}
		var workflow struct {
			Permissions map[string]string `yaml:"permissions"`
			Jobs        map[string]struct {
				Permissions map[string]string `yaml:"permissions"`
			} `yaml:"jobs"`
		}
		require.NoError(t, yaml.Unmarshal([]byte(text), &workflow))
		require.NotNil(t, workflow.Permissions, "%s: without permissions, a job has the default ones", file)
		require.Empty(t, workflow.Permissions, file)
		for name, job := range workflow.Jobs {
			require.NotEmpty(t, job.Permissions, "%s: %s", file, name)
		}
	}
}

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
