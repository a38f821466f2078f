package manifest

import (
	"encoding/json"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkConfigMap(c *corev1.ConfigMap) field.ErrorList {
	errs := checkMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	size := 0
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		at := field.NewPath("data").Key(key)
		errs = append(errs, invalid(at, key, validation.IsConfigMapKey(key))...)
		if _, twice := c.BinaryData[key]; twice {
			errs = append(errs, field.Invalid(at, key, "duplicate of key present in binaryData"))
		}
		size += len(c.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(c.BinaryData)) {
		errs = append(errs, invalid(field.NewPath("binaryData").Key(key), key, validation.IsConfigMapKey(key))...)
		size += len(c.BinaryData[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath("data"), "", corev1.MaxSecretSize))
	}
	return errs
}

func checkSecret(s *corev1.Secret) field.ErrorList {
	errs := checkMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSSubdomain)
	path, size := field.NewPath("data"), 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		errs = append(errs, invalid(path.Key(key), key, validation.IsConfigMapKey(key))...)
		size += len(s.Data[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(path, "", corev1.MaxSecretSize))
	}
	return append(errs, checkSecretType(s, path)...)
}

// checkSecretType asks for the keys that the type of a Secret promises.
func checkSecretType(s *corev1.Secret, path *field.Path) (errs field.ErrorList) {
	has := func(key string) bool { _, ok := s.Data[key]; return ok }
	need := func(keys ...string) {
		for _, key := range keys {
			if !has(key) {
				errs = append(errs, field.Required(path.Key(key), "a Secret of type "+string(s.Type)+" has it"))
			}
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		need(corev1.DockerConfigKey)
		errs = append(errs, checkSecretJSON(s, path, corev1.DockerConfigKey)...)
	case corev1.SecretTypeDockerConfigJson:
		need(corev1.DockerConfigJsonKey)
		errs = append(errs, checkSecretJSON(s, path, corev1.DockerConfigJsonKey)...)
	case corev1.SecretTypeBasicAuth:
		if !has(corev1.BasicAuthUsernameKey) && !has(corev1.BasicAuthPasswordKey) {
			need(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(path.Key(corev1.SSHAuthPrivateKey), "a Secret of type "+string(s.Type)+" has it"))
		}
	case corev1.SecretTypeTLS:
		need(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return errs
}

// checkSecretJSON wants a JSON mapping, and does not show what it got instead.
func checkSecretJSON(s *corev1.Secret, path *field.Path, key string) field.ErrorList {
	text, ok := s.Data[key]
	if !ok || json.Unmarshal(text, &map[string]any{}) == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Key(key), "<secret contents redacted>", "must be a JSON object")}
}
