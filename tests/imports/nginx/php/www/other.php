<?php // other.php
