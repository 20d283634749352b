package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestEachPodHasAJournalFile checks that pods share the claim but not a file: each writes its own.
func TestEachPodHasAJournalFile(t *testing.T) {
	for _, d := range of[*appsv1.Deployment](rendered(t, with("authquota.journal.claimName", "kept-apart"))) {
		pod, mounted := d.Spec.Template.Spec, ""
		for _, v := range pod.Volumes {
			if v.PersistentVolumeClaim != nil {
				require.Equal(t, "kept-apart", v.PersistentVolumeClaim.ClaimName)
				mounted = v.Name
			}
		}
		if d.Name != "opportunity-authquota" {
			require.Empty(t, mounted, d.Name)
			continue
		}
		container := pod.Containers[0]
		path := ""
		for _, m := range container.VolumeMounts {
			if m.Name == mounted {
				path = m.MountPath
				require.False(t, m.ReadOnly)
			}
		}
		require.NotEmpty(t, path)
		require.Equal(t, "POD_NAME", container.Env[0].Name, "a variable is expanded only after its definition")
		require.Equal(t, "metadata.name", container.Env[0].ValueFrom.FieldRef.FieldPath)
		require.Contains(t, container.Env, corev1.EnvVar{Name: "OPPORTUNITY_JOURNAL_FILE", Value: path + "/$(POD_NAME).jsonl"})
	}
}
