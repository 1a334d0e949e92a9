-- Onboarding.
SELECT 1;
