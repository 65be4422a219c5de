"""The page Streams in Airflow's navigation: all applications, each one's topology at work, and buttons for its DAGs."""
